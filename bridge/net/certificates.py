"""When the certificates of a PEM file end, and the lists of those that were withdrawn."""

import re
import warnings
from typing import Final

_CRL: Final = re.compile(rb"-----BEGIN X509 CRL-----.+?-----END X509 CRL-----", re.DOTALL)


def ends_at(pem: bytes) -> float:
    """The first end among them, in Unix seconds; ValueError where there is none."""
    from cryptography import x509  # only where there is TLS: it takes a tenth of a second to import

    try:
        with warnings.catch_warnings():  # a serial number of zero: OpenSSL and the clients take it
            warnings.simplefilter("ignore")
            chain: list[x509.Certificate] = x509.load_pem_x509_certificates(pem)
    except x509.InvalidVersion as error:
        raise ValueError(str(error)) from None
    return min(one.not_valid_after_utc.timestamp() for one in chain)


def lists_end_at(pem: bytes) -> float:
    """The first end among the certificate revocation lists, as `ends_at`; infinity where none has an end."""
    from cryptography import x509

    ends = [x509.load_pem_x509_crl(one).next_update_utc for one in _CRL.findall(pem)]
    if not ends:
        raise ValueError("it has no certificate revocation list in PEM")
    return min(end.timestamp() if end else float("inf") for end in ends)
