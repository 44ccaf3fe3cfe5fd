"""Who may do what in the account: IAM policy documents. Pure."""
