"""What all of burst says about AWS in the same words: names, tags, and answers that fail."""
