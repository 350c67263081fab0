"""When the certificates of a PEM file end."""

import warnings


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
