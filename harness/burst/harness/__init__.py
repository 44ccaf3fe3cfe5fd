"""What runs inside a trial: the trial API, the training loop, data order and checkpoints."""
