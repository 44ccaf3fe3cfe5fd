"""Who may do what in the account: IAM policy documents. Pure.

A module a role: `node`, `runner`, `people`; who may take a role on is in `trusts`, and what holds
for all at the bucket in `bucket`. docs/design/0022-access.md says why each may do what it may.
"""
