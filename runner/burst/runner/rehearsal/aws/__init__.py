"""AWS's services other than EC2: ministack, and what it lacks or has otherwise than AWS.

What each server of a rehearsal has, and what it gets wrong, is told in
`docs/design/0017-rehearsal-cloud.md`.
"""
