"""What nodes boot from where the cluster file does not say: AWS's own Deep Learning AMI.

It has the NVIDIA driver, PyTorch in a virtual environment, EFA with aws-ofi-nccl, Docker with
NVIDIA's container toolkit and, as a package of that environment, the AWS CLI. Local NVMe disks are
one file system at `/opt/dlami/nvme`, which its `dlami-nvme.service` makes at boot.

Source: the release notes of "Deep Learning OSS Nvidia Driver AMI GPU PyTorch 2.12 (Ubuntu 24.04)"
in the AWS Deep Learning AMIs developer guide, of August 2026 (`python_location`, `efa_version`,
`ofi_nccl_version`, `nvidia_container_toolkit_version`, `nvme_location`, packages). They do not say
which Python it is: 3.13 is what people who used that image, and 2.10's before it, report.
"""

from __future__ import annotations

DEFAULT_IMAGE = (
    "resolve:ssm:/aws/service/deeplearning/ami/x86_64/"
    "oss-nvidia-driver-gpu-pytorch-2.12-ubuntu-24.04/latest/ami-id"
)
DEFAULT_PYTHON = "/opt/pytorch/bin/python"
DEFAULT_PYTHON_VERSION = "3.13"
"""Of that Python; what burst gives a node is compiled for it."""
NODE_MACHINE = "x86_64"
