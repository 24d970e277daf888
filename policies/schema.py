"""Write the files that are generated from the policy models: ``python -m policies.schema``.

The files are schema.json, the JSON Schema of a policy file for editors, and the EAP methods that
Ansible roles accept in their argument_specs.yml. `generated_texts` yields each file with the
content that it must have. A test compares this content with the files.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

from policies.eap_methods import METHODS
from policies.policy import json_schema

SCHEMA_FILE = Path(__file__).with_name("schema.json")
_ROLES = Path(__file__).parent.parent / "ansible" / "roles"
_EAP_CHOICES = re.compile(r"^(\s*(?:eap|first_offer): \{.*choices: \[).*(\]\})$", re.MULTILINE)


def schema_text() -> str:
    """Return the content that schema.json must have."""
    return json.dumps(json_schema(), indent=2, sort_keys=True) + "\n"


def generated_texts() -> Iterator[tuple[Path, str]]:
    """Yield every generated file with the content that it must have."""
    yield SCHEMA_FILE, schema_text()
    choices = ", ".join(METHODS)
    for path in sorted(_ROLES.glob("*/meta/argument_specs.yml")):
        text = path.read_text(encoding="utf-8")
        if _EAP_CHOICES.search(text):
            yield path, _EAP_CHOICES.sub(rf"\g<1>{choices}\g<2>", text)


if __name__ == "__main__":
    for place, content in generated_texts():
        place.write_text(content, encoding="utf-8")
