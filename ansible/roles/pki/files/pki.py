"""Make the key material that one node needs, and install it in the node's folder.

The store (`key_store`) contains these units:

    authority/                  root.pem, root.key, root.csr, intermediate.pem, intermediate.key
    rogue/                      root.pem of an authority that has issued no certificate
    server-NODE/, client-NODE/  cert.pem (followed by the intermediate), alone.pem, key.pem
    ipsec-NODE/, stranger/      key.pem, pub.pem
    infrastructure/             as authority/: certifies the two ends of RadSec and no others
    radsec_server-NODE/, radsec_client-NODE/  as server-NODE/ and client-NODE/

A certificate of another form than usual has the form in its units' names, as in
`client@p256@3@expired-NODE` and `authority@p256@3`. The form is the kind of key, the number of
certificates that a side sends, and whether its own has expired. Such an authority has
intermediate1, intermediate2 and so on down from the root, and `chain.pem` with all certificates
above a leaf.
`visited@p256@3` is another operator's root, which signs certificates itself. The two roots have
certified each other: `chain.pem` there is the visited root as certified by the home network's.
`trust.pem` there is the visited root, followed by the home network's root as certified by it.

One line is printed for each unit that is created and each file that is written; none if all
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
from dataclasses import dataclass
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
keyUsage = critical, keyCertSign
[intermediate]
basicConstraints = critical, CA:TRUE, pathlen:0
keyUsage = critical, keyCertSign
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
"""
RSA_BITS = {"rsa1024": 1024, "rsa2048": 2048}
KEYS = {
    "p256": ["ec", "-pkeyopt", "ec_paramgen_curve:P-256"],
    "p384": ["ec", "-pkeyopt", "ec_paramgen_curve:P-384"],
}

#: Folder of the files of a RadSec end.
RADSEC_FOLDER = "radsec"

#: Digest by kind of key; the 192-bit suite accepts no weaker one.
DIGESTS = {"p384": "sha384"}


class PkiError(Exception):
    """Key material could not be created. The text is for the user."""


@dataclass(frozen=True)
class Form:
    """The form of a unit's certificates. The usual form has no part in the unit's name."""

    key: str = "rsa2048"
    chain: int = 2
    is_expired: bool = False
    is_visited: bool = False

    @property
    def suffix(self) -> str:
        """Return the suffix of a unit's kind."""
        said = "@expired" * self.is_expired + "@visited" * self.is_visited
        return "" if self == Form() else f"@{self.key}@{self.chain}{said}"

    @property
    def home(self) -> str:
        """Return the unit of the home network's authority for this form."""
        return f"authority{Form(self.key, self.chain).suffix}"

    @property
    def authority(self) -> str:
        """Return the unit of the authority that issues certificates of this form."""
        return f"visited@{self.key}@{self.chain}" if self.is_visited else self.home


def parse_unit(unit: str) -> tuple[str, Form, str]:
    """Return kind, form and node of a unit."""
    before, _, name = unit.partition("-")
    kind, *said = before.split("@")
    form = Form(said[0], int(said[1]), "expired" in said, "visited" in said) if said else Form()
    return kind, form, name


def run_openssl(folder: Path, *arguments: str) -> None:
    """Run openssl in `folder`. Its own message becomes the error."""
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
    made = rsa.generate_private_key(public_exponent=65537, key_size=bits)
    (folder / file).write_bytes(made.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption()))


def make_request(folder: Path, name: str, kind: str, key: str = "rsa2048") -> None:
    """Create `kind`.key in `folder` and the request for its certificate."""
    (folder / "openssl.cnf").write_text(OPENSSL_CONFIG.format(name=name))
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
    """Create `kind`.pem in `folder`, signed by ISSUER.key and ISSUER.pem.

    Without an issuer it is self-signed.
    """
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
        f"{first:%Y%m%d%H%M%SZ}",
        "-enddate",
        f"{last:%Y%m%d%H%M%SZ}",
        *signer,
        "-in",
        f"{kind}.csr",
        "-out",
        f"{kind}.pem",
    )


def keep_only(folder: Path, *names: str) -> None:
    """Remove everything from `folder` except `names`.

    Requests and databases are not needed later.
    """
    for path in folder.iterdir():
        if path.name not in names:
            path.unlink()


def make_authority(_store: Store, folder: Path, _name: str, form: Form) -> None:
    """Create the root and the intermediate."""
    if form != Form():
        make_further_authority(folder, form)
        return
    make_request(folder, "root", "root")
    sign_certificate(folder, "root", None)
    make_request(folder, "qop", "intermediate")
    sign_certificate(folder, "intermediate", folder / "root")
    keep_only(folder, *ROOT_FILES, "intermediate.pem", "intermediate.key")


def make_further_authority(folder: Path, form: Form) -> None:
    """Create a root and its chain of intermediates. The last one's key signs certificates."""
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
    """Create another operator's root. It and the home network's certify each other."""
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
    """Create the root that has issued no certificate."""
    make_request(folder, "rogue", "root")
    sign_certificate(folder, "root", None)
    keep_only(folder, "root.pem")


def make_leaf(kind: str, signed_by: str = "") -> Callable[[Store, Path, str, Form], None]:
    """Return a maker of server or client certificates, named for their subject.

    They are signed by the authority `signed_by`, or by that of their form.
    """

    def make_one(store: Store, folder: Path, name: str, form: Form) -> None:
        # The slow part, while another thread creates the authority.
        make_request(folder, name, kind, form.key)
        authority = signed_by or form.authority
        make_unit(store, authority)
        usual = form == Form()
        issuer, rest = ("intermediate", "intermediate.pem") if usual else ("issuer", "chain.pem")
        signer = store.path(authority, issuer)
        sign_certificate(folder, kind, signer, is_expired=form.is_expired, key=form.key)
        rest_of_chain = store.path(authority, rest).read_text()
        (folder / "cert.pem").write_text((folder / f"{kind}.pem").read_text() + rest_of_chain)
        (folder / f"{kind}.pem").rename(folder / "alone.pem")
        (folder / f"{kind}.key").rename(folder / "key.pem")
        keep_only(folder, "cert.pem", "alone.pem", "key.pem")

    return make_one


def make_raw_key(_store: Store, folder: Path, _name: str, _form: Form) -> None:
    """Create an RSA key and its public part, in strongSwan's formats."""
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
    "ipsec": make_raw_key,
    "stranger": make_raw_key,
}


def make_unit(store: Store, unit: str) -> None:
    """Create a unit in the store, by its kind and form, unless it exists."""
    kind, form, name = parse_unit(unit)
    store.make(unit, lambda folder: MAKERS[kind](store, folder, name, form))


def wanted_files(options: argparse.Namespace) -> dict[str, tuple[str, str]]:
    """Return the files of a node: path below its folder -> (unit, file in the unit)."""
    files: dict[str, tuple[str, str]] = {}
    if options.eap != "none":
        folder = options.folder
        form = Form(options.key, options.chain, options.expired, options.visited)
        unit = f"{options.eap}{form.suffix}-{options.subject or options.name}"
        # Both sides know only the root, so each also sends the intermediate.
        root = "rogue" if options.trust == "rogue" else form.authority
        files[f"{folder}/ca.pem"] = (root, "trust.pem" if options.visited else "root.pem")
        if options.eap != "trusting":
            chain = "alone.pem" if options.cross_unknown else "cert.pem"
            files[f"{folder}/cert.pem"] = (unit, chain)
            files[f"{folder}/key.pem"] = (unit, "key.pem")
    if options.radsec != "none":
        unit = f"radsec_{options.radsec}-{options.name}"
        files[f"{RADSEC_FOLDER}/ca.pem"] = ("infrastructure", "root.pem")
        for file in ("cert.pem", "key.pem") if options.radsec != "trusting" else ():
            files[f"{RADSEC_FOLDER}/{file}"] = (unit, file)
    if options.peer:
        own = f"ipsec-{options.name}"
        files[f"swanctl/private/{options.name}.pem"] = (own, "key.pem")
        files[f"swanctl/pubkey/{options.name}.pem"] = (own, "pub.pem")
    for peer in options.peer:
        unit = "stranger" if options.peers_unknown else f"ipsec-{peer}"
        files[f"swanctl/pubkey/{peer}.pem"] = (unit, "pub.pem")
    return files


def main() -> int:
    """Run from the command line. Return 1, with one line of reason, on failure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True, help="the node's folder")
    parser.add_argument("--name", required=True, help="the node's name")
    parser.add_argument("--eap", choices=["none", "client", "server", "trusting"], default="none")
    parser.add_argument("--trust", choices=["ca", "rogue"], default="ca")
    parser.add_argument("--subject", default="", help="whom a certificate names; the node")
    parser.add_argument("--key", choices=[*RSA_BITS, *KEYS], default="rsa2048")
    parser.add_argument("--chain", type=int, choices=[1, 2, 3], default=2)
    parser.add_argument("--expired", action="store_true", help="its certificate has expired")
    parser.add_argument("--folder", default="pki", help="where a part in EAP has its files")
    parser.add_argument("--visited", action="store_true", help="of the visited network's authority")
    parser.add_argument("--cross-unknown", action="store_true")
    parser.add_argument("--radsec", choices=["none", "client", "server", "trusting"],
                        default="none")
    parser.add_argument("--peer", action="append", default=[], help="an IPsec peer's name")
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
