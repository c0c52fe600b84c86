"""`nsd-local simulate`: the speed of settings and machines that were not run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from nsd_local.decoding.costs import Costs


def simulate(
    rounds: Annotated[
        Path, typer.Option("--rounds", help="Recorded rounds (JSON lines), as bench and tune write them.")
    ],
    costs: Annotated[Path, typer.Option("--costs", help="A cost curve (JSON), as tune --costs writes it.")],
    draft_tokens: Annotated[
        str, typer.Option("--draft-tokens", "-k", help="Draft lengths, by commas; auto plays the controller.")
    ] = "0,1,2,3,4,5,6,7,8,auto",
    rule: Annotated[str, typer.Option("--rule", help="exact, nucleus or match.")] = "nucleus",
    theta: Annotated[float | None, typer.Option("--theta", help="Nucleus threshold.", show_default="0.9")] = None,
    strength: Annotated[float | None, typer.Option("--strength", help="Strength.", show_default="1")] = None,
    kind: Annotated[str | None, typer.Option("--kind", help="Only rounds of this kind of prompt.")] = None,
    arm: Annotated[str | None, typer.Option("--arm", "-a", help="Only rounds of this arm of a benchmark.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Predict tokens per second from recorded rounds and a cost curve.

    The rounds say how often drafts are kept at each position of a text, the curve what passes cost on a machine, which
    need not be this one. Rules other than the recorded one can be predicted where the rounds hold what they need.
    """
    from nsd_local.decoding.records_io import read_recordings
    from nsd_local.errors import UsageError
    from nsd_local.measure.simulate import predict
    from nsd_local.measure.trace import Trace
    from nsd_local.verification.rules import make, parse

    recordings = [
        one
        for one in read_recordings(rounds)
        if (kind is None or kind in (one.about.get("kind"), one.about.get("prompt_kind")))
        and (arm is None or one.about.get("arm") == arm)
        and ("profile" in one.about or any(round.k for round in one.rounds))
    ]
    if not recordings:
        which = "".join(f" of the {name} {value!r}" for name, value in (("kind", kind), ("arm", arm)) if value)
        raise UsageError(f"{rounds.name} holds no rounds with drafts{which}")
    traces = [Trace.of(recording) for recording in recordings]
    curve = read_costs(costs)
    given = {key: value for key, value in (("theta", theta), ("strength", strength)) if value is not None}
    chosen = make(rule, given) if given else parse(rule)
    found = [predict(traces, curve, k, chosen) for k in parse_lengths(draft_tokens)]
    plain = predict(traces, curve, 0, chosen).tokens_per_second
    rows: list[dict[str, Any]] = [
        {
            "k": one.k,
            "mean_accepted_length": one.mean_accepted_length,
            "tokens_per_second": one.tokens_per_second,
            "gain": one.tokens_per_second / plain,
        }
        for one in found
    ]
    if as_json:
        print(json.dumps({"rule": rule, "tokens": found[0].tokens, "rows": rows}))
        return
    print(f"{'k':>5}  {'tokens/pass':>11}  {'tok/s':>7}  {'x plain':>7}")
    for row in rows:
        numbers = f"{row['mean_accepted_length']:11.2f}  {row['tokens_per_second']:7.1f}  {row['gain']:7.2f}"
        print(f"{row['k']:>5}  {numbers}")


def read_costs(path: Path) -> Costs:
    """A cost curve file. Raises UsageError."""
    from nsd_local.catalog.disk import unreadable
    from nsd_local.decoding.costs import Costs
    from nsd_local.errors import UsageError

    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise unreadable(path, error) from error
    except ValueError as error:
        raise UsageError(f"{path} cannot be read as JSON", str(error)) from error
    return Costs.from_dict(data.get("costs", data) if isinstance(data, dict) else data)


def parse_lengths(text: str) -> list[Any]:
    """ "0,2,auto" -> [0, 2, "auto"]. Raises UsageError."""
    from nsd_local.errors import UsageError

    lengths: list[Any] = []
    for word in text.split(","):
        word = word.strip()
        if word != "auto" and not (word.isdigit() and int(word) <= 64):
            raise UsageError(f"--draft-tokens takes numbers up to 64 or auto, by commas, not {word!r}")
        lengths.append(word if word == "auto" else int(word))
    return lengths
