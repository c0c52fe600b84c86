"""Which columns the tables of each measurement have, for the terminal and for reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nsd_local.measure.table import DASH, Cell, number, spread, text

BENCH: Mapping[str, Cell] = {
    "kind": text("prompt_kind"),
    "arm": text("arm"),
    "tok/s (quartiles)": spread("median_ts", "q1_ts", "q3_ts"),
    "x plain (quartiles)": spread("speedup", "speedup_q1", "speedup_q3", 2),
    "tokens/pass": number("mean_accepted_length"),
    "kept": number("acceptance_rate", 0, percent=True),
    "deviation/token": number("deviation_per_token", 4),
    "runs": text("n_runs"),
    "failed": text("n_failed"),
}

COMPARE: Mapping[str, Cell] = {
    "rule": text("arm"),
    "k": text("draft_tokens"),
    "tok/s (quartiles)": spread("median_ts", "q1_ts", "q3_ts"),
    "x plain": number("speedup"),
    "tokens/pass": number("mean_accepted_length"),
    "deviation/token": number("deviation_per_token", 4),
    "log p/token": number("target_logprob", 3),
    "tokens/answer": number("tokens_per_run", 0),
    "passes/finished": number("rounds_per_finished", 0),
    "finished": lambda row: f"{row['finished']}/{row['n_runs']}",
    "score": number("score", 3),
}

SWEEP: Mapping[str, Cell] = {
    "setting": text("arm"),
    "tok/s (quartiles)": spread("median_ts", "q1_ts", "q3_ts"),
    "x plain": number("speedup"),
    "tokens/pass": number("mean_accepted_length"),
    "kept": number("acceptance_rate", 0, percent=True),
    "deviation/token": number("deviation_per_token", 4),
    "log p/token": number("target_logprob", 3),
    "score": number("score", 3),
}

EVAL: Mapping[str, Cell] = {
    "arm": text("arm"),
    "solved": lambda row: f"{row['solved']}/{row['answers']}",
    "accuracy (95 %)": spread("accuracy", "accuracy_low", "accuracy_high", 3),
    "better/worse": lambda row: DASH if row["better"] is None else f"{row['better']}/{row['worse']}",
    "McNemar p": number("p_value", 3),
    "tok/s (median)": number("median_ts", 1),
    "tokens/pass": number("mean_accepted_length"),
    "tokens/answer": number("tokens_per_answer", 0),
    "passes/solved": number("rounds_per_solved", 0),
    "deviation/token": number("deviation_per_token", 4),
    "cut off": text("cut_off"),
}


def grid(ks: Sequence[int]) -> Mapping[str, Cell]:
    """Speed-up, mean accepted length and score for every k."""
    columns = {"rule": text("rule")}
    for k in ks:
        columns[f"k {k}: x plain"] = number(f"speedup_k{k}")
        columns[f"k {k}: tokens/pass"] = number(f"mean_accepted_length_k{k}")
        columns[f"k {k}: score"] = number(f"score_k{k}", 3)
    return columns
