"""Where bytes are kept: one port over local folders and S3."""
