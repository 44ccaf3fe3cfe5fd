"""A cloud on this machine's loopback, in which a launched instance is a real process.

It is there so that a run can be rehearsed, and burst be tested, before a dollar is spent. Clients
find it by what AWS's own libraries read (`AWS_ENDPOINT_URL` and its like), so that what runs in it
is exactly what runs in the real one.
"""
