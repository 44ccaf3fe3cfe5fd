"""The infrastructure that `burst up` provisions in an AWS account."""
