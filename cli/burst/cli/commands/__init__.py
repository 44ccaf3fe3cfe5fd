"""The commands, one noun or verb a file; each is imported when it is called."""
