"""Write an OCI image archive: layers packed with zstd, and the documents that describe them.

`pack` compresses a tar file to a layer. `write_archive` writes layers and configuration to one
file, which podman and docker load. The documents follow the OCI image specification 1.0. Debian
12's unprivileged tool for that (umoci) packs layers with gzip only. The image would then exceed its
limit of 250 MB by 10 %.
"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from guest.build import BuildCommands

_TYPE = "application/vnd.oci.image"
#: Annotations in which podman, and docker's newer image store (containerd), look for an image's
#: name.
_NAMES = {"org.opencontainers.image.ref.name": "{}",
          "io.containerd.image.name": "docker.io/library/{}"}


@dataclass(frozen=True)
class ImageLayer:
    """A packed layer of a container image with its digest, and that of the unpacked tar."""

    file: Path
    digest: str
    diff_id: str
    made_by: str

    def to_descriptor(self) -> dict[str, Any]:
        """Return the entry of a layer in the OCI image manifest."""
        return {"mediaType": f"{_TYPE}.layer.v1.tar+zstd", "digest": f"sha256:{self.digest}",
                "size": self.file.stat().st_size}


def pack(tar: Path, made_by: str, commands: BuildCommands, *, level: int) -> ImageLayer:
    """Pack a tar file with zstd to a layer next to it, and remove the tar file.

    `level` is zstd's compression level.
    """
    diff_id = _file_sha256(tar)
    packed = tar.with_suffix(".tar.zst")
    commands.run(["zstd", "--quiet", "--rm", "-T0", f"-{level}", str(tar), "-o", str(packed)])
    return ImageLayer(packed, _file_sha256(packed), diff_id, made_by)


def write_archive(layers: Sequence[ImageLayer], name: str, config: Mapping[str, Any],
                  annotations: Mapping[str, str], target: Path) -> None:
    """Write an OCI image archive that podman and docker load as `name`.

    Args:
        layers: The layers, lowest first.
        name: Name and tag of the image.
        config: The image's configuration: how a container is started.
        annotations: Annotations of the image, which also become its labels.
        target: The file to write.
    """
    about = _to_json({
        "architecture": "amd64", "os": "linux",
        "config": {**config, "Labels": dict(annotations)},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{layer.diff_id}" for layer in layers]},
        "history": [{"created_by": layer.made_by} for layer in layers]})
    manifest = _to_json({
        "schemaVersion": 2, "mediaType": f"{_TYPE}.manifest.v1+json",
        "config": _make_descriptor(about, f"{_TYPE}.config.v1+json"),
        "layers": [layer.to_descriptor() for layer in layers], "annotations": dict(annotations)})
    index = _to_json({"schemaVersion": 2, "mediaType": f"{_TYPE}.index.v1+json", "manifests": [{
        **_make_descriptor(manifest, f"{_TYPE}.manifest.v1+json"),
        "platform": {"architecture": "amd64", "os": "linux"},
        "annotations": {key: form.format(name) for key, form in _NAMES.items()}}]})
    # Docker's older image store reads manifest.json and ignores the index.
    for_docker = _to_json([{"Config": _blob_path(_sha256_of(about)), "RepoTags": [name],
                            "Layers": [_blob_path(layer.digest) for layer in layers]}])
    with tarfile.open(target, "w", format=tarfile.PAX_FORMAT) as tar:
        for path, content in (("oci-layout", _to_json({"imageLayoutVersion": "1.0.0"})),
                              ("index.json", index), ("manifest.json", for_docker),
                              (_blob_path(_sha256_of(manifest)), manifest),
                              (_blob_path(_sha256_of(about)), about)):
            _add_file(tar, path, io.BytesIO(content), len(content))
        for layer in layers:
            with layer.file.open("rb") as packed:
                _add_file(tar, _blob_path(layer.digest), packed, layer.file.stat().st_size)


def _add_file(tar: tarfile.TarFile, path: str, content: Any, size: int) -> None:
    entry = tarfile.TarInfo(path)
    entry.size = size
    tar.addfile(entry, content)


def _to_json(document: Any) -> bytes:
    return json.dumps(document, sort_keys=True).encode()


def _make_descriptor(content: bytes, media_type: str) -> dict[str, Any]:
    return {"mediaType": media_type, "digest": f"sha256:{_sha256_of(content)}",
            "size": len(content)}


def _sha256_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _blob_path(digest: str) -> str:
    return f"blobs/sha256/{digest}"


def _file_sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
