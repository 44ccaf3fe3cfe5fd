"""The infrastructure that burst needs in an AWS account."""
