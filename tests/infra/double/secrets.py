"""How the double of the `pulumi` command keeps secrets: under a passphrase, never in clear."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.infra.double.backend import Refusal
from tests.infra.double.values import SECRET, SIGNATURE, is_secret, map_values, secret

_ROUNDS = 10_000
"""A hundredth of the real command's: tests have nothing to hide."""


def passphrase(environ: Mapping[str, str]) -> str:
    """
    Raises:
        Refusal: nothing tells it; the real command does not ask either when nobody looks.
    """
    if "PULUMI_CONFIG_PASSPHRASE" in environ:
        return environ["PULUMI_CONFIG_PASSPHRASE"]
    if file := environ.get("PULUMI_CONFIG_PASSPHRASE_FILE"):
        return Path(file).read_text().strip()
    raise Refusal(
        "passphrase must be set with PULUMI_CONFIG_PASSPHRASE or PULUMI_CONFIG_PASSPHRASE_FILE "
        "environment variables"
    )


class Crypter:
    """Encrypts for one stack."""

    def __init__(self, phrase: str, salt: bytes) -> None:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        from cryptography.hazmat.primitives.hashes import SHA256
        from cryptography.hazmat.primitives.kdf.pbkdf2 import PBKDF2HMAC

        made = PBKDF2HMAC(algorithm=SHA256(), length=32, salt=salt, iterations=_ROUNDS)
        self._cipher = AESGCM(made.derive(phrase.encode()))
        self._salt = salt

    @staticmethod
    def new(phrase: str) -> Crypter:
        return Crypter(phrase, os.urandom(8))

    @staticmethod
    def again(phrase: str, told: str) -> Crypter:
        """The one whose `salt` is `told`.

        Raises:
            Refusal: the passphrase is another one.
        """
        _, salt, proof = told.split(":", 2)
        crypter = Crypter(phrase, base64.b64decode(salt))
        if crypter.decrypt(proof) != "pulumi":
            raise Refusal("incorrect passphrase")
        return crypter

    @property
    def salt(self) -> str:
        """What has to be remembered; it tells nothing without the passphrase."""
        return f"v1:{base64.b64encode(self._salt).decode()}:{self.encrypt('pulumi')}"

    def encrypt(self, text: str) -> str:
        nonce = os.urandom(12)
        coded = self._cipher.encrypt(nonce, text.encode(), None)
        return ":".join(("v1", *(base64.b64encode(each).decode() for each in (nonce, coded))))

    def decrypt(self, text: str) -> str:
        """
        Raises:
            Refusal: it was encrypted under another passphrase.
        """
        from cryptography.exceptions import InvalidTag

        nonce, coded = (base64.b64decode(each) for each in text.split(":")[1:])
        try:
            return self._cipher.decrypt(nonce, coded, None).decode()
        except InvalidTag as error:
            raise Refusal("incorrect passphrase") from error

    def hide(self, value: Any) -> Any:
        """With every secret in it encrypted."""

        def cover(each: Any) -> Any:
            if not is_secret(each) or "ciphertext" in each:
                return each
            return {SIGNATURE: SECRET, "ciphertext": self.encrypt(json.dumps(each["value"]))}

        return map_values(value, cover)

    def show(self, value: Any) -> Any:
        """With every secret in it as it was."""

        def uncover(each: Any) -> Any:
            if not is_secret(each) or "ciphertext" not in each:
                return each
            return secret(json.loads(self.decrypt(each["ciphertext"])))

        return map_values(value, uncover)
