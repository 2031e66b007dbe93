"""A certificate authority of our own for 127.0.0.1, and the key that signs service account tokens."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

VALID_FOR: Final = timedelta(days=7)
_CLOCK_SKEW: Final = timedelta(hours=1)


@dataclass(frozen=True)
class KeyPair:
    """A certificate and its private key, as files in PEM."""

    certificate: Path
    key: Path


class Authority:
    """Signs server certificates. Its own key is never written down."""

    def __init__(self, name: str) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._certificate = self._sign(name, self._key.public_key(), is_authority=True)
        self.pem: bytes = self._certificate.public_bytes(serialization.Encoding.PEM)

    def issue(self, name: str, folder: Path) -> KeyPair:
        """A server certificate for 127.0.0.1 and localhost, written to `folder` as NAME.crt and NAME.key."""
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = self._sign(name, key.public_key(), is_authority=False)
        pair = KeyPair(folder / f"{name}.crt", folder / f"{name}.key")
        pair.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        _write_key(pair.key, key)
        return pair

    def _sign(self, name: str, key: ec.EllipticCurvePublicKey, *, is_authority: bool) -> x509.Certificate:
        now = datetime.now(UTC)
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(subject if is_authority else self._certificate.subject)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _CLOCK_SKEW)
            .not_valid_after(now + VALID_FOR)
            .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
            .add_extension(_usage(is_authority=is_authority), critical=True)
        )
        if not is_authority:
            names = [x509.DNSName("localhost"), x509.IPAddress(ip_address("127.0.0.1"))]
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
            builder = builder.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        return builder.sign(self._key, hashes.SHA256())


def write_signing_key(path: Path) -> Path:
    """Write a new RSA key: what service account tokens are signed and checked with."""
    _write_key(path, rsa.generate_private_key(public_exponent=65537, key_size=2048))
    return path


def _write_key(path: Path, key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> None:
    path.touch(mode=0o600)
    path.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )


def _usage(*, is_authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=is_authority,
        crl_sign=is_authority,
        encipher_only=False,
        decipher_only=False,
    )
