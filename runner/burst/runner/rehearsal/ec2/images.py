"""The machine images that the model knows; moto's 1,300 take seconds to load and none is used."""

from __future__ import annotations

import json
from pathlib import Path

from burst.core.aws import images

IMAGES = {
    "ami-0b0a57de1ea2a1a01": "Deep Learning Base OSS Nvidia Driver GPU AMI (Ubuntu 22.04)",
    "ami-0b0a57de1ea2a1a02": "Deep Learning Base OSS Nvidia Driver GPU AMI (Ubuntu 24.04)",
    "ami-0b0a57de1ea2a1a03": "Deep Learning Base OSS Nvidia Driver GPU AMI (Amazon Linux 2023)",
    "ami-0b0a57de1ea2a1a04": "Deep Learning OSS Nvidia Driver AMI GPU PyTorch (Ubuntu 24.04)",
}
DEFAULT_IMAGE = next(iter(IMAGES))
_PREFIX = "/aws/service/deeplearning/ami/x86_64/base-oss-nvidia-driver-gpu"
_SYSTEMS = ("ubuntu-22.04", "ubuntu-24.04", "amazon-linux-2023")
PARAMETERS = {
    f"{_PREFIX}-{system}/latest/ami-id": image
    for system, image in zip(_SYSTEMS, IMAGES, strict=False)
}
PARAMETERS[images.DEFAULT_IMAGE.removeprefix("resolve:ssm:")] = next(reversed(IMAGES))
"""AWS's public parameters of the newest of them."""


def write_images(file: Path) -> None:
    """For moto, which reads its images from the file that MOTO_AMIS_PATH names."""
    file.write_text(
        json.dumps(
            [
                {
                    "ami_id": image,
                    "name": name,
                    "description": name,
                    "state": "available",
                    "public": True,
                    "owner_id": "898082745236",
                    "image_location": f"amazon/{name}",
                    "sriov": "simple",
                    "root_device_type": "ebs",
                    "root_device_name": "/dev/sda1",
                    "image_type": "machine",
                    "platform": None,
                    "architecture": "x86_64",
                    "virtualization_type": "hvm",
                    "hypervisor": "xen",
                }
                for image, name in IMAGES.items()
            ]
        )
    )
