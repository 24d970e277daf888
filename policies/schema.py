"""Write schema.json, the JSON Schema of a policy file: ``python -m policies.schema``."""

from __future__ import annotations

import json
from pathlib import Path

from policies.policy import json_schema

SCHEMA_FILE = Path(__file__).with_name("schema.json")


def schema_text() -> str:
    """Return the required content of schema.json."""
    return json.dumps(json_schema(), indent=2, sort_keys=True) + "\n"


if __name__ == "__main__":
    SCHEMA_FILE.write_text(schema_text(), encoding="utf-8")
