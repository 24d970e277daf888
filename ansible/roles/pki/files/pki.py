"""Create and install the keys and certificates that one node needs for EAP, IPsec and RadSec.

An Ansible role runs this program for each node. It creates missing keys in a store that all nodes
share (`key_store`). Then it copies the node's keys to the node's folder. The store contains these
units (folders of keys):

    authority/                  root.pem, root.key, root.csr, intermediate.pem, intermediate.key
    rogue/                      root.pem of an authority that has issued no certificate
    server-NODE/, client-NODE/  cert.pem (followed by the intermediate), alone.pem, key.pem
    server-NAME/                as server-NODE/, where a policy has the name of RADIUS servers, and
                                the other name that stations refuse
    ipsec-NODE/, stranger/      key.pem, pub.pem
    status-NODE/                index, issuer.pem, responder.pem and responder.key of a responder;
                                trust.pem (root and intermediates), crl.pem (these and the CRL)
    ike@rsa2048@1-NODE/         as server-NODE/, certified by a root without intermediates
    infrastructure/             as authority/: certifies the two ends of RadSec and no others
    radsec_server-NODE/, radsec_client-NODE/  as server-NODE/ and client-NODE/

A certificate of another form than usual has the form in its units' names, as in
`client@p256@3@expired-NODE` and `authority@p256@3`. The form is the kind of key, the number of
certificates that a side sends, and whether its own has expired or is revoked. With `@outlived`, the
topmost intermediate above it has expired. `status-NODE` is
about `client-NODE`, which is valid, and `client@rsa2048@2@revoked-NODE`. An authority of another
form has intermediate1, intermediate2 and so on down from the root, and `chain.pem` with all
certificates above a leaf. `visited@p256@3` is another operator's root, which signs certificates
itself. The two roots have certified each other: `chain.pem` there is the visited root as certified
by the home network's. `trust.pem` there is the visited root, followed by the home network's root as
certified by it.

The program prints a line for each unit that it creates and each file that it writes, none if all
existed already.
"""

# ruff: noqa: INP001  # an __init__.py in ansible/ would shadow ansible-core
import argparse
import os
import secrets
import shutil
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "files"))
from key_store import Store, install, validity

#: Files of a root that remain, so that it and another operator's can certify each other.
ROOT_FILES = ("root.pem", "root.key", "root.csr")
# Certificates are as small as possible: two of them and the server's key exchange must fit two EAP
# fragments of 1024 bytes, which gives EAP-TLS the 17 frames of the paper (docs/ansible.md counts
# them). So names and serials are short, and there are no key identifiers.
OPENSSL_CONFIG = """
[req]
distinguished_name = name
[name]
[ca]
default_ca = authority
[authority]
database = index
serial = serial
new_certs_dir = .
default_md = sha256
policy = names
[names]
commonName = supplied
[root]
basicConstraints = critical, CA:TRUE
keyUsage = critical, keyCertSign, cRLSign
[intermediate]
basicConstraints = critical, CA:TRUE, pathlen:0
keyUsage = critical, keyCertSign, cRLSign
subjectKeyIdentifier = none
authorityKeyIdentifier = none
[server]
keyUsage = critical, digitalSignature, keyEncipherment
extendedKeyUsage = serverAuth
subjectAltName = DNS:{name}
subjectKeyIdentifier = none
authorityKeyIdentifier = none
[client]
keyUsage = critical, digitalSignature
extendedKeyUsage = clientAuth
subjectKeyIdentifier = none
authorityKeyIdentifier = none
[responder]
keyUsage = critical, digitalSignature
extendedKeyUsage = OCSPSigning
subjectKeyIdentifier = none
authorityKeyIdentifier = none
"""
RSA_BITS = {"rsa1024": 1024, "rsa2048": 2048, "rsa3072": 3072, "rsa4096": 4096}
KEYS = {
    "p256": ["ec", "-pkeyopt", "ec_paramgen_curve:P-256"],
    "p384": ["ec", "-pkeyopt", "ec_paramgen_curve:P-384"],
}

#: Post-quantum kinds of keys, by the name in the cryptography package: openssl before 3.5 has none.
ML_DSA = {f"mldsa{size}": f"MLDSA{size}PrivateKey" for size in (44, 65, 87)}

#: Folder of the files of a RadSec end.
RADSEC_FOLDER = "radsec"
#: Folder of a RADIUS server's certificate with a name that stations refuse.
OTHER_FOLDER = "freeradius/other_pki"
#: Folders of a station's revoked certificate, and of an OCSP responder.
REVOKED_FOLDER, RESPONDER_FOLDER = "revoked_pki", "ocsp"
RESPONDER_FILES = ("index", "issuer.pem", "responder.pem", "responder.key")
#: Dates in OpenSSL's index of certificates, and in its options.
INDEX_DATE, OPENSSL_DATE = "%y%m%d%H%M%SZ", "%Y%m%d%H%M%SZ"

#: Digest by kind of key; the 192-bit suite accepts no weaker one.
DIGESTS = {"p384": "sha384"}


class PkiError(Exception):
    """An error: keys or certificates could not be created. The text is for the user."""


@dataclass(frozen=True)
class Form:
    """The form of certificates: key, length of the chain, and whether expired or revoked.

    The usual form has no part in the unit's name.
    """

    key: str = "rsa2048"
    chain: int = 2
    is_expired: bool = False
    is_visited: bool = False
    is_revoked: bool = False
    #: Whether the topmost intermediate certificate above it has expired.
    has_expired_intermediate: bool = False

    @property
    def suffix(self) -> str:
        """Return the part of a unit's name that states this form."""
        marks = ("@expired" * self.is_expired + "@visited" * self.is_visited
                 + "@revoked" * self.is_revoked + "@outlived" * self.has_expired_intermediate)
        return "" if self == Form() else f"@{self.key}@{self.chain}{marks}"

    @property
    def home(self) -> str:
        """Return the name of the home network's authority for certificates of this form."""
        return f"authority{Form(self.key, self.chain).suffix}"

    @property
    def authority(self) -> str:
        """Return the name of the authority that issues certificates of this form."""
        return f"visited@{self.key}@{self.chain}" if self.is_visited else self.home


def parse_unit(unit: str) -> tuple[str, Form, str]:
    """Split a unit's name into the kind, form and node of its certificates."""
    before, _, name = unit.partition("-")
    kind, *form_parts = before.split("@")
    form = Form() if not form_parts else Form(
        form_parts[0], int(form_parts[1]), "expired" in form_parts, "visited" in form_parts,
        "revoked" in form_parts, "outlived" in form_parts)
    return kind, form, name


def run_openssl(folder: Path, *arguments: str) -> None:
    """Run openssl in a folder. If it fails, its message becomes the error."""
    try:
        done = subprocess.run(
            ["openssl", *arguments], cwd=folder, capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        raise PkiError("openssl is not installed; install the package openssl") from None
    if done.returncode:
        raise PkiError(f"openssl {arguments[0]} failed: {done.stderr.strip()}")


def make_rsa_key(folder: Path, file: str, bits: int) -> None:
    """Create an RSA key in PKCS#8, with the cryptography package if it is installed.

    Ansible itself uses that package, whose OpenSSL takes a sixth of the time of Debian 12's.
    """
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import rsa
    except ImportError:
        run_openssl(folder, "genrsa", "-out", file, str(bits))
        return
    private_key = rsa.generate_private_key(public_exponent=65537, key_size=bits)
    (folder / file).write_bytes(private_key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption()))


def make_request(folder: Path, name: str, kind: str, key: str = "rsa2048") -> None:
    """Create a key in a folder, and the request for its certificate."""
    (folder / "openssl.cnf").write_text(OPENSSL_CONFIG.format(name=name))
    if key in ML_DSA:
        make_ml_dsa_request(folder, name, kind, key)
        return
    if key in RSA_BITS:
        make_rsa_key(folder, f"{kind}.key", RSA_BITS[key])
        source = ["-key", f"{kind}.key"]
    else:
        source = ["-newkey", *KEYS[key], "-nodes", "-keyout", f"{kind}.key"]
    run_openssl(
        folder,
        "req",
        "-new",
        *source,
        "-config",
        "openssl.cnf",
        "-subj",
        f"/CN={name}",
        "-out",
        f"{kind}.csr",
    )


def sign_certificate(
    folder: Path,
    kind: str,
    issuer: Path | None,
    *,
    extensions: str = "",
    is_expired: bool = False,
    key: str = "rsa2048",
) -> None:
    """Create a certificate in a folder, signed by an issuer or else by itself.

    The issuer's files are ISSUER.key and ISSUER.pem.
    """
    if key in ML_DSA:
        sign_with_ml_dsa(folder, kind, issuer, extensions or kind, is_expired=is_expired)
        return
    (folder / "index").write_text("")
    (folder / "serial").write_text(f"01{secrets.token_hex(4)}")
    first, last = validity(is_expired=is_expired)
    signer = (
        ["-selfsign", "-keyfile", f"{kind}.key"]
        if issuer is None
        else ["-cert", f"{issuer}.pem", "-keyfile", f"{issuer}.key"]
    )
    run_openssl(
        folder,
        "ca",
        "-batch",
        "-notext",
        "-config",
        "openssl.cnf",
        "-md",
        DIGESTS.get(key, "sha256"),
        "-extensions",
        extensions or kind,
        "-startdate",
        f"{first:{OPENSSL_DATE}}",
        "-enddate",
        f"{last:{OPENSSL_DATE}}",
        *signer,
        "-in",
        f"{kind}.csr",
        "-out",
        f"{kind}.pem",
    )


def make_ml_dsa_request(folder: Path, name: str, kind: str, key: str) -> None:
    """Create an ML-DSA key in a folder, and the request for its certificate."""
    try:
        from cryptography import x509
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import mldsa
    except ImportError:
        raise PkiError(f"{key} keys need the Python package cryptography, version 47 or newer; "
                       "start it as ./qop, which installs it") from None
    private_key = getattr(mldsa, ML_DSA[key]).generate()
    (folder / f"{kind}.key").write_bytes(private_key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption()))
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    request = x509.CertificateSigningRequestBuilder(subject).sign(private_key, None)
    (folder / f"{kind}.csr").write_bytes(request.public_bytes(serialization.Encoding.PEM))


def sign_with_ml_dsa(folder: Path, kind: str, issuer: Path | None, extensions: str, *,
                     is_expired: bool) -> None:
    """Create a certificate as `sign_certificate` does, with the extensions of its configuration."""
    from cryptography import x509
    from cryptography.hazmat.primitives import serialization

    request = x509.load_pem_x509_csr((folder / f"{kind}.csr").read_bytes())
    signer = issuer or folder / kind
    key = serialization.load_pem_private_key(signer.with_suffix(".key").read_bytes(), None)
    name = request.subject if issuer is None else x509.load_pem_x509_certificate(
        issuer.with_suffix(".pem").read_bytes()).subject
    first, last = validity(is_expired=is_expired)
    builder = x509.CertificateBuilder(
        name, request.subject, request.public_key(),
        int.from_bytes(b"\x01" + secrets.token_bytes(4), "big"), first.replace(microsecond=0),
        last.replace(microsecond=0))
    is_authority = extensions in ("root", "intermediate")
    if is_authority:
        builder = builder.add_extension(x509.BasicConstraints(
            ca=True, path_length=0 if extensions == "intermediate" else None), critical=True)
    builder = builder.add_extension(x509.KeyUsage(
        digital_signature=not is_authority, content_commitment=False, key_encipherment=False,
        data_encipherment=False, key_agreement=False, key_cert_sign=is_authority, crl_sign=False,
        encipher_only=False, decipher_only=False), critical=True)
    if not is_authority:
        usage = {"server": x509.ExtendedKeyUsageOID.SERVER_AUTH,
                 "client": x509.ExtendedKeyUsageOID.CLIENT_AUTH}[extensions]
        builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
    if extensions == "server":
        [common] = request.subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)
        builder = builder.add_extension(
            x509.SubjectAlternativeName([x509.DNSName(str(common.value))]), critical=False)
    certificate = builder.sign(key, None)
    (folder / f"{kind}.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))


def keep_only(folder: Path, *names: str) -> None:
    """Remove all files from a folder except `names`.

    Requests and databases are not needed later.
    """
    for path in folder.iterdir():
        if path.name not in names:
            path.unlink()


def make_authority(_store: Store, folder: Path, _name: str, form: Form) -> None:
    """Create the root certificate and the intermediate certificate of an authority."""
    if form != Form():
        make_further_authority(folder, form)
        return
    make_request(folder, "root", "root")
    sign_certificate(folder, "root", None)
    make_request(folder, "qop", "intermediate")
    sign_certificate(folder, "intermediate", folder / "root")
    keep_only(folder, *ROOT_FILES, "intermediate.pem", "intermediate.key")


def make_further_authority(folder: Path, form: Form) -> None:
    """Create a root certificate and its chain of intermediates.

    The last one's key signs certificates.
    """
    make_request(folder, "root", "root", form.key)
    sign_certificate(folder, "root", None, key=form.key)
    issuer, chain = "root", ""
    for number in range(1, form.chain):
        name = f"intermediate{number}"
        make_request(folder, f"qop{number}", name, form.key)
        is_last = number == form.chain - 1
        extensions = "intermediate" if is_last else "root"
        sign_certificate(folder, name, folder / issuer, extensions=extensions, key=form.key)
        chain = (folder / f"{name}.pem").read_text() + chain
        issuer = name
    (folder / "chain.pem").write_text(chain)
    for end in ("pem", "key"):
        shutil.copyfile(folder / f"{issuer}.{end}", folder / f"issuer.{end}")
    keep_only(folder, *ROOT_FILES, "chain.pem", "issuer.pem", "issuer.key")


def make_visited(store: Store, folder: Path, _name: str, form: Form) -> None:
    """Create another operator's root certificate.

    It and the home network's root certify each other.
    """
    make_unit(store, form.home)
    make_request(folder, "visited", "root", form.key)
    sign_certificate(folder, "root", None, key=form.key)
    shutil.copyfile(folder / "root.csr", folder / "cross.csr")
    home = store.path(form.home, "root")
    sign_certificate(folder, "cross", home, extensions="root", key=form.key)
    shutil.copyfile(home.with_suffix(".csr"), folder / "home.csr")
    sign_certificate(folder, "home", folder / "root", extensions="root", key=form.key)
    both = (folder / "root.pem").read_text() + (folder / "home.pem").read_text()
    (folder / "trust.pem").write_text(both)
    for name, source in {"chain.pem": "cross.pem", "issuer.pem": "root.pem",
                         "issuer.key": "root.key"}.items():
        shutil.copyfile(folder / source, folder / name)
    keep_only(folder, "trust.pem", "chain.pem", "issuer.pem", "issuer.key")


def make_rogue(_store: Store, folder: Path, _name: str, _form: Form) -> None:
    """Create a root certificate that has issued no other certificate."""
    make_request(folder, "rogue", "root")
    sign_certificate(folder, "root", None)
    keep_only(folder, "root.pem")


def find_signer(store: Store, authority: str) -> tuple[Path, Path]:
    """Return the file that signs an authority's leaf certificates, and the file of its chain.

    The first path has no suffix: key and certificate of the signer have this name. The second file
    has the certificates above the leaves.
    """
    usual = authority in ("authority", "infrastructure")
    signer, above = ("intermediate", "intermediate.pem") if usual else ("issuer", "chain.pem")
    return store.path(authority, signer), store.path(authority, above)


def make_leaf(kind: str, signed_by: str = "") -> Callable[[Store, Path, str, Form], None]:
    """Return a function that creates server or client certificates for a node.

    Args:
        kind: "server" or "client".
        signed_by: Name of the authority that signs. "" means the authority that has the same kind
            of key and the same length of the chain as the certificate.
    """

    def make_one(store: Store, folder: Path, name: str, form: Form) -> None:
        # The slow part, while another thread creates the authority.
        make_request(folder, name, kind, form.key)
        authority = signed_by or form.authority
        make_unit(store, authority)
        signer, above = find_signer(store, authority)
        sign_certificate(folder, kind, signer, is_expired=form.is_expired, key=form.key)
        chain = above.read_text()
        if form.has_expired_intermediate:
            chain = expire_topmost(chain, store.path(authority, "root.key"), form.key)
        (folder / "cert.pem").write_text((folder / f"{kind}.pem").read_text() + chain)
        (folder / f"{kind}.pem").rename(folder / "alone.pem")
        (folder / f"{kind}.key").rename(folder / "key.pem")
        keep_only(folder, "cert.pem", "alone.pem", "key.pem")

    return make_one


def expire_topmost(chain: str, root_key: Path, key: str) -> str:
    """Return a chain of intermediates in PEM whose last one, which the root signed, has expired.

    Args:
        chain: The certificates above a leaf, in PEM.
        root_key: The key file of the root.
        key: Kind of the keys.

    Raises:
        PkiError: There is no intermediate, or the cryptography package is missing.
    """
    try:
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes, serialization
    except ImportError:
        raise PkiError("an expired intermediate needs the cryptography package; install it") \
            from None

    if not chain:
        raise PkiError("no intermediate can expire in a chain of one certificate; choose a policy "
                       "with tls.chain 2 or 3")
    *below, valid = x509.load_pem_x509_certificates(chain.encode())
    first, last = validity(is_expired=True)
    builder = x509.CertificateBuilder(
        valid.issuer, valid.subject, valid.public_key(),
        int.from_bytes(b"\x01" + secrets.token_bytes(4), "big"), first.replace(microsecond=0),
        last.replace(microsecond=0))
    for extension in valid.extensions:
        builder = builder.add_extension(extension.value, extension.critical)
    digest = None if key in ML_DSA else getattr(hashes, DIGESTS.get(key, "sha256").upper())()
    expired = builder.sign(
        serialization.load_pem_private_key(root_key.read_bytes(), None), digest)
    return "".join(each.public_bytes(serialization.Encoding.PEM).decode()
                   for each in (*below, expired))


def make_status(store: Store, folder: Path, name: str, form: Form) -> None:
    """Create the status of two certificates of a station: a CRL, and files of an OCSP responder.

    The station's own certificate is valid, the other one is revoked.
    """
    units = [f"client{each.suffix}-{name}" for each in (form, replace(form, is_revoked=True))]
    make_request(folder, "ocsp", "responder", form.key)
    for unit in units:
        make_unit(store, unit)
    signer, above = find_signer(store, form.home)
    sign_certificate(folder, "responder", signer, key=form.key)
    shutil.copyfile(signer.with_suffix(".pem"), folder / "issuer.pem")
    first, last = validity()
    valid, revoked = (read_serial(store.path(unit, "alone.pem")) for unit in units)
    (folder / "index").write_text(
        f"V\t{last:{INDEX_DATE}}\t\t{valid}\tunknown\t/CN={name}\n"
        f"R\t{last:{INDEX_DATE}}\t{first:{INDEX_DATE}}\t{revoked}\tunknown\t/CN={name}\n")
    run_openssl(folder, "ca", "-gencrl", "-config", "openssl.cnf", "-md",
                DIGESTS.get(form.key, "sha256"), "-cert", f"{signer}.pem", "-keyfile",
                f"{signer}.key", "-crl_lastupdate", f"{first:{OPENSSL_DATE}}", "-crl_nextupdate",
                f"{last:{OPENSSL_DATE}}", "-out", "list.pem")
    trust = store.path(form.home, "root.pem").read_text() + above.read_text()
    (folder / "trust.pem").write_text(trust)
    (folder / "crl.pem").write_text(trust + (folder / "list.pem").read_text())
    keep_only(folder, *RESPONDER_FILES, "trust.pem", "crl.pem")


def read_serial(certificate: Path) -> str:
    """Return the serial number of a certificate, in hexadecimal digits."""
    done = subprocess.run(["openssl", "x509", "-noout", "-serial", "-in", str(certificate)],
                          capture_output=True, text=True, check=False)
    if done.returncode:
        raise PkiError(f"openssl x509 failed: {done.stderr.strip()}")
    return done.stdout.strip().partition("=")[2]


def make_raw_key(_store: Store, folder: Path, _name: str, _form: Form) -> None:
    """Create an RSA key pair without certificate, in strongSwan's formats."""
    make_rsa_key(folder, "key.pem", RSA_BITS["rsa2048"])
    run_openssl(folder, "rsa", "-in", "key.pem", "-pubout", "-out", "pub.pem")


MAKERS: dict[str, Callable[[Store, Path, str, Form], None]] = {
    "authority": make_authority,
    "visited": make_visited,
    "infrastructure": make_authority,
    "rogue": make_rogue,
    "server": make_leaf("server"),
    "client": make_leaf("client"),
    "radsec_server": make_leaf("server", "infrastructure"),
    "radsec_client": make_leaf("client", "infrastructure"),
    "status": make_status,
    "ike": make_leaf("server"),
    "ipsec": make_raw_key,
    "stranger": make_raw_key,
}


def make_unit(store: Store, unit: str) -> None:
    """Create one folder of keys or certificates in the store, such as `server-NODE`.

    A folder that exists is not changed. The module's docstring lists the kinds of folders (units).
    """
    kind, form, name = parse_unit(unit)
    store.make(unit, lambda folder: MAKERS[kind](store, folder, name, form))


def revocation_files(options: argparse.Namespace) -> dict[str, tuple[str, str]]:
    """Return the files by which a node finds, gives or tries revoked certificates.

    Returns:
        Unit of the certificate store and file name there, by path on the node.
    """
    form, files = Form(options.key, options.chain), dict[str, tuple[str, str]]()
    status = f"status{form.suffix}-{options.user}"
    if options.revocation != "none" and options.eap == "server":
        trust = "crl.pem" if options.revocation == "crl" else "trust.pem"
        files[f"{options.folder}/ca.pem"] = (status, trust)
    if options.revocation != "none" and options.eap == "client":
        unit = f"client{replace(form, is_revoked=True).suffix}-{options.user}"
        files[f"{REVOKED_FOLDER}/ca.pem"] = (form.authority, "root.pem")
        files |= {f"{REVOKED_FOLDER}/{file}": (unit, file) for file in ("cert.pem", "key.pem")}
    if options.responder:
        files |= {f"{RESPONDER_FOLDER}/{file}": (status, file) for file in RESPONDER_FILES}
    return files


def wanted_files(options: argparse.Namespace) -> dict[str, tuple[str, str]]:
    """Return the key files that a node gets: unit and file there, by path on the node."""
    files = revocation_files(options)
    if options.eap != "none":
        folder = options.folder
        form = Form(options.key, options.chain, options.expired, options.visited, options.revoked,
                    options.issuer_expired)
        unit = f"{options.eap}{form.suffix}-{options.subject or options.name}"
        # Both sides know only the root, so each also sends the intermediate.
        peer = replace(form, key=options.peer_key or options.key)
        root = "rogue" if options.trust == "rogue" else peer.authority
        files.setdefault(f"{folder}/ca.pem",
                         (root, "trust.pem" if options.visited else "root.pem"))
        if options.eap != "trusting":
            chain = "alone.pem" if options.cross_unknown else "cert.pem"
            files[f"{folder}/cert.pem"] = (unit, chain)
            files[f"{folder}/key.pem"] = (unit, "key.pem")
        if options.other_name:
            unit = f"server{form.suffix}-{options.other_name}"
            files |= {f"{OTHER_FOLDER}/{file}": (unit, file) for file in ("cert.pem", "key.pem")}
    if options.radsec != "none":
        unit = f"radsec_{options.radsec}-{options.name}"
        files[f"{RADSEC_FOLDER}/ca.pem"] = ("infrastructure", "root.pem")
        for file in ("cert.pem", "key.pem") if options.radsec != "trusting" else ():
            files[f"{RADSEC_FOLDER}/{file}"] = (unit, file)
    if options.peer and options.ike_certificates:
        # Without intermediates, which would make a message of IKE two IP fragments.
        form = Form(chain=1)
        own = f"ike{form.suffix}-{options.name}"
        files[f"swanctl/private/{options.name}.pem"] = (own, "key.pem")
        files[f"swanctl/x509/{options.name}.pem"] = (own, "alone.pem")
        files["swanctl/x509ca/root.pem"] = (form.authority, "root.pem")
        return files
    if options.peer:
        own = f"ipsec-{options.name}"
        files[f"swanctl/private/{options.name}.pem"] = (own, "key.pem")
        files[f"swanctl/pubkey/{options.name}.pem"] = (own, "pub.pem")
    for peer in options.peer:
        unit = "stranger" if options.peers_unknown else f"ipsec-{peer}"
        files[f"swanctl/pubkey/{peer}.pem"] = (unit, "pub.pem")
    return files


def main() -> int:
    """Create and install a node's key material. Return 1 on failure, with a line of reason."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True, help="the node's folder")
    parser.add_argument("--name", required=True, help="the node's name")
    parser.add_argument("--eap", choices=["none", "client", "server", "trusting"], default="none")
    parser.add_argument("--trust", choices=["ca", "rogue"], default="ca")
    parser.add_argument("--subject", default="", help="whom a certificate names; the node")
    parser.add_argument("--other-name", default="", help="whom a further certificate names")
    parser.add_argument("--key", choices=[*RSA_BITS, *KEYS, *ML_DSA], default="rsa2048")
    parser.add_argument("--peer-key", choices=[*RSA_BITS, *KEYS, *ML_DSA],
                        help="kind of the other end's keys; as its own")
    parser.add_argument("--chain", type=int, choices=[1, 2, 3], default=2)
    parser.add_argument("--expired", action="store_true", help="its certificate has expired")
    parser.add_argument("--issuer-expired", action="store_true",
                        help="the certificate above it has expired")
    parser.add_argument("--revoked", action="store_true", help="its certificate is revoked")
    parser.add_argument("--revocation", choices=["none", "crl", "ocsp"], default="none",
                        help="how a server finds revoked certificates")
    parser.add_argument("--user", default="", help="whom stations' certificates name")
    parser.add_argument("--responder", action="store_true", help="it is an OCSP responder")
    parser.add_argument("--folder", default="pki", help="where a part in EAP has its files")
    parser.add_argument("--visited", action="store_true", help="of the visited network's authority")
    parser.add_argument("--cross-unknown", action="store_true")
    parser.add_argument("--radsec", choices=["none", "client", "server", "trusting"],
                        default="none")
    parser.add_argument("--peer", action="append", default=[], help="an IPsec peer's name")
    parser.add_argument("--ike-certificates", action="store_true",
                        help="IKE has certificates in place of raw keys")
    parser.add_argument("--peers-unknown", action="store_true")
    options = parser.parse_args()
    os.umask(0o077)
    store, files = Store(options.store), wanted_files(options)
    try:
        with ThreadPoolExecutor() as pool:
            list(pool.map(lambda unit: make_unit(store, unit),
                          {unit for unit, _ in files.values()}))
        install(options.output, {name: store.path(*source) for name, source in files.items()})
    except (PkiError, OSError) as error:
        print(f"pki: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
