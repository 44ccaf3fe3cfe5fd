"""What came of an experiment, for readers who were not there: a page, outputs, a comment."""
