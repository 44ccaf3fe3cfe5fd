#!/bin/sh
# Installs libfabric and aws-ofi-nccl from AWS's EFA installer, without its kernel module, and
# registers them with the loader, which is where NCCL looks for its plugin.
#
# Usage: install-efa.sh VERSION SHA256
#
# It wants root, apt with fresh lists, and curl. It refuses an archive with another checksum.
set -eu

version=$1
sha256=$2
from=${EFA_FROM:-https://efa-installer.amazonaws.com}
amazon=${EFA_ROOT:-}/opt/amazon
conf=${EFA_ROOT:-}/etc/ld.so.conf.d/efa.conf

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
curl --fail --silent --show-error --location --retry 3 --output efa.tar.gz \
    "$from/aws-efa-installer-$version.tar.gz"
if ! echo "$sha256  efa.tar.gz" | sha256sum --check --quiet -; then
    echo "the EFA installer $version is not the one with the SHA-256 sum $sha256:" >&2
    sha256sum efa.tar.gz >&2
    exit 1
fi
tar -xzf efa.tar.gz
(
    cd aws-efa-installer
    ./efa_installer.sh -y --skip-kmod --skip-limit-conf --no-verify
)

# NCCL asks for libnccl-net.so if nobody names another.
plugin=$(find "$amazon" -name libnccl-net-ofi.so | head -n 1)
if [ -n "$plugin" ] && [ ! -e "${plugin%-ofi.so}.so" ]; then
    ln -s libnccl-net-ofi.so "${plugin%-ofi.so}.so"
fi
find "$amazon" \( -name 'libfabric.so*' -o -name 'libnccl-net*.so' \) -exec dirname {} + |
    sort -u >"$conf"
ldconfig
if ! grep -q nccl "$conf"; then
    echo "the EFA installer $version brought no plugin for NCCL" >&2
    exit 1
fi
