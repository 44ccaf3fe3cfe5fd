"""Where moto is too kind, or lacks something, and what real EC2 does instead.

The only place that knows moto, tried with 5.2. Imported by the server's process alone.
"""
