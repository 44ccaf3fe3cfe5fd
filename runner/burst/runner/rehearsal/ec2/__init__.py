"""The model of EC2: moto's, made exact where burst depends on it, with machines that really run.

Run it with `python -m burst.runner.rehearsal.ec2`. What moto does too kindly or not at all is
mended in `patched`; everything else here knows nothing of moto.
"""
