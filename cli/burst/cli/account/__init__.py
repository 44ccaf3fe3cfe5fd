"""The cluster's side in an AWS account, for people: built, checked, audited and taken down."""
