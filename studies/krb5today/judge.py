"""sketch"""
from __future__ import annotations
import json
from studies.study import Judged, Repetition
def judge(repetition: Repetition) -> Judged:
    raw = json.loads((repetition.out / "raw.json").read_text())
    import shutil
    shutil.copytree(repetition.out, "/tmp/krb5-look/"+repetition.cell.name, dirs_exist_ok=True)
    return Judged(None, reason="sketch "+str(raw.get("failure"))+str([l["status"] for l in raw["logins"]])+raw["lacking"], status="failed", captures=raw["captures"])
