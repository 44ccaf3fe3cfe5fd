"""What nodes boot from where the cluster file does not say: AWS's own Deep Learning AMI."""

from __future__ import annotations

DEFAULT_IMAGE = (
    "resolve:ssm:/aws/service/deeplearning/ami/x86_64/"
    "oss-nvidia-driver-gpu-pytorch-2.9-ubuntu-24.04/latest/ami-id"
)
DEFAULT_PYTHON = "/opt/pytorch/bin/python"
DEFAULT_PYTHON_VERSION = "3.12"
