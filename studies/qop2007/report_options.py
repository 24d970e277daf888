"""Options of `./qop report` for this study, and the digest of its baseline."""

from __future__ import annotations

import hashlib

from studies.study import ReportOption

#: `Policy.digest()` of a policy without any layer: the hash of an empty JSON object.
NO_LAYERS_SHA256 = hashlib.sha256(b"{}").hexdigest()

REPORT_OPTIONS = (
    ReportOption("--handoff", "Instead: draw the phases of the handoffs as handoff.svg and "
                 "handoff.png into FOLDER, and print their table.", instead=True,
                 unused=("--weights", "--application")),
    ReportOption("--published", "Instead: the report of the values that the 2007 paper printed, "
                 "into FOLDER (default: results/published).", instead=True, without_results=True,
                 unused=("--baseline",)),
    ReportOption("--weights", "Weights of protection in place of the paper's; "
                 "policies/weights.yml is an example.", metavar="FILE", is_file=True),
    ReportOption("--application", "voice, video, file-transfer, or limits such as "
                 "delay=0.2,loss=0.01,sigma=50: also print which policies qualify. May be "
                 "repeated.", metavar="NAME", multiple=True),
)
