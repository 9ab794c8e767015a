"""A proven run in a process of its own that dies: in the proof, or at a named step of the run.

python proof_driver.py STORE STEP
"""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from lessons_loop.promote.gate import Mode, Rules
from lessons_loop.promote.proof.prove_batch import Rehearsal, prove_batch
from lessons_loop.promote.proof.proving import ProofCase, ProofResult
from lessons_loop.promote.runs.drive import RunOptions, run_gate
from lessons_loop.promote.session import open_gate
from support.gate import HashEmbedder, settings


def main(store: str, step: str) -> None:
    place = settings(Path(store), HashEmbedder(256))
    options = RunOptions(Mode.AUTO, Rules(proving=True))

    def prover(case: ProofCase) -> ProofResult:
        if step == "proof":
            os._exit(9)
        return ProofResult(False, "2 questions broken: a-1, a-2", {"broken": ["a-1", "a-2"]})

    def checkpoint(name: str) -> None:
        if name == step:
            os._exit(9)

    proof = prove_batch(Rehearsal(place, options), prover)
    with open_gate(place, checkpoint=checkpoint) as session:
        run_gate(session, replace(options, proof=proof))


if __name__ == "__main__":
    main(*sys.argv[1:])
