"""Tensors and arrays as bytes of known types: what can be stored, and under which name.

Every dtype of torch whose elements are whole bytes has a place in safetensors, some of them under
an assumed one (complex128 as pairs of F64); the state file remembers which it was.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import torch
from torch.nn.parameter import is_lazy

from burst.core.checkpoints.format.tensorfile import STORED_AS
from burst.core.model import Json

NAMES = {getattr(torch, name): name for name in STORED_AS if hasattr(torch, name)}
"""What torch calls the dtypes that can be stored, and so the skeleton."""
_CARRIERS = {torch.float4_e2m1fn_x2: torch.uint8, torch.complex32: torch.int32}


class Unrepresentable(Exception):
    """Why a value cannot be stored, in words, and what can be stored in its place."""

    def __init__(self, why: str, mend: str) -> None:
        super().__init__(why)
        self.mend = mend


def dtype_of(name: str) -> torch.dtype:
    """The dtype that torch calls `name`.

    Raises:
        ValueError: if it has none of that name.
    """
    found = getattr(torch, name, None)
    if not isinstance(found, torch.dtype):
        raise ValueError(f"torch {torch.__version__} has no dtype {name!r}")
    return found


def carrier_of(dtype: torch.dtype) -> torch.dtype:
    """The dtype to copy elements of `dtype` as: itself, where torch can make and copy it."""
    return _CARRIERS.get(dtype, dtype)


def name_of(dtype: torch.dtype) -> str:
    """What torch calls `dtype`, and so the skeleton."""
    return NAMES[dtype]


def check_tensor(tensor: torch.Tensor) -> None:
    """
    Raises:
        Unrepresentable: for what no file here can hold, or has no values.
    """
    if is_lazy(tensor):
        raise Unrepresentable("it has no shape yet", "run the model once before it is saved")
    if tensor.is_nested:
        why = "it is a nested tensor, of rows of different lengths"
        raise Unrepresentable(why, "save its rows, `list(tensor.unbind())`")
    if tensor.layout is not torch.strided:
        raise Unrepresentable(f"its layout is {tensor.layout}", "save its `to_dense()`")
    if tensor.is_meta:
        mend = "give it memory with `to_empty`, and values, before it is saved"
        raise Unrepresentable("it is on the meta device and has no values", mend)
    if tensor.is_quantized:
        mend = "save its `int_repr()`, and its scale and zero point as numbers"
        raise Unrepresentable(f"its dtype is {tensor.dtype}, which is quantized", mend)
    if tensor.dtype not in NAMES:
        raise Unrepresentable(f"its dtype is {tensor.dtype}", "save it as another dtype")
    try:
        gone = tensor.numel() > 0 and tensor.data_ptr() == 0
    except RuntimeError as error:
        mend = "save it where no transform of torch is at work, such as `torch.func.grad`"
        raise Unrepresentable(str(error), mend) from None
    if gone:
        raise Unrepresentable("its memory was given back", "save it before that")


def memory_of(tensor: torch.Tensor) -> tuple[Any, ...] | None:
    """What two tensors have equal if they are the same view of the same memory, its address first;
    None if the tensor has no memory."""
    address = tensor.data_ptr()
    if address == 0 or tensor.numel() == 0:
        return None
    bits = (tensor.is_conj(), tensor.is_neg())
    return (address, tensor.device, tensor.dtype, tensor.shape, tensor.stride(), *bits)


def stride_of(tensor: torch.Tensor) -> tuple[int, ...] | None:
    """The strides to restore with: of a dense tensor whose dimensions are permuted
    (channels_last, a transpose), so that kernels see the memory they saw; else None."""
    if tensor.is_contiguous():
        return None
    if tensor.dtype in _CARRIERS:
        tensor = tensor.resolve_conj().view(_CARRIERS[tensor.dtype])
    alike = torch.empty_like(tensor, device="meta", memory_format=torch.preserve_format)
    return tensor.stride() if alike.stride() == tensor.stride() else None


def pack_array(array: np.ndarray[Any, Any]) -> tuple[torch.Tensor, tuple[Json, ...]]:
    """An array's bytes, shared with it where possible, and what `unpack_array` needs besides.

    Raises:
        Unrepresentable: for arrays of objects and of structures.
    """
    name = _dtype_name(array.dtype)
    order = "C" if array.flags.c_contiguous or not array.flags.f_contiguous else "F"
    facts = (name, list(array.shape), order)
    if array.nbytes == 0:
        return torch.empty(0, dtype=torch.uint8), facts
    flat = np.ravel(array, order=order).view(np.uint8)  # type: ignore[call-overload]
    return torch.from_numpy(flat if flat.flags.writeable else flat.copy()), facts


def unpack_array(tensor: torch.Tensor, name: str, shape: list[int], order: Any) -> Any:
    dtype = np.dtype(name)
    if tensor.numel() == 0:
        return np.empty(shape, dtype, order=order)
    return tensor.numpy().view(dtype).reshape(shape, order=order)


def pack_scalar(scalar: np.generic) -> tuple[str, str]:
    """A NumPy scalar's dtype and its bytes in hexadecimal.

    Raises:
        Unrepresentable: as for arrays.
    """
    return _dtype_name(scalar.dtype), scalar.tobytes().hex()


def unpack_scalar(name: str, digits: str) -> Any:
    dtype = np.dtype(name)
    if dtype.itemsize == 0:
        return dtype.type()
    return np.frombuffer(bytes.fromhex(digits), dtype)[0]


def _dtype_name(dtype: np.dtype[Any]) -> str:
    name = dtype.str
    if name[0] == "=":
        name = ("<" if sys.byteorder == "little" else ">") + name[1:]
    try:
        known = np.dtype(name) == dtype and not dtype.hasobject and dtype.names is None
    except TypeError:
        known = False
    if not known:
        raise Unrepresentable(f"its dtype is {dtype}", _plain_form(dtype))
    return name


def _plain_form(dtype: np.dtype[Any]) -> str:
    """What to save in the place of an array that is not plain."""
    if dtype.names is not None:
        return "save its fields as arrays of their own"
    return "save its `tolist()`" if dtype.hasobject else "save it as another dtype"
