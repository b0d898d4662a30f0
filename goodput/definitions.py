"""What is goodput? One run under the definitions that are in use, each with who uses it and what it leaves out.

Like a distance by road and by air: neither is wrong, but two of them cannot be compared.
"""

import pandas as pd

from goodput.metrics import hours, reference_steps

# definition: formula, who uses it, what it leaves out or takes in
TEXTS = {
    "goodput": (
        "productive GPU-hours / GPU-hours held",
        "this package",
        "the queue before the first launch; a step that is slow counts in full",
    ),
    "ETTR": (
        "productive time / wall-clock time of the job, waiting in it and in the queue included",
        "Meta RSC (arXiv 2410.21680), ByteRobust (2509.16293), Llama 3 (2407.21783) and Gemini 1.0 (2312.11805)",
        "the size of the job: an hour with half the nodes is an hour (and here the queue, which no log of a job has)",
    ),
    "without rescheduling": (
        "productive time / (wall-clock time - waiting for nodes)",
        "Google's runtime goodput, which has scheduling as a measure of its own",
        "waiting for nodes, so that spares are worth nothing",
    ),
    "running share": (
        "(productive + checkpoint + lost work) / wall-clock time",
        "a scheduler, which sees no more than that the job ran; the most that an unexplained share can mean",
        "saves and lost work, both counted as good",
    ),
    "kept steps": (
        "steps kept x reference step time / wall-clock time",
        "MegaScale (arXiv 2402.15627): iterations x iteration time / total time",
        "nothing, but it moves with the reference: with half the step time it is half the share",
    ),
}


def definitions(spans: pd.DataFrame, log: pd.DataFrame | None = None, step_seconds: float | None = None):
    """Return one row a definition of goodput, with what each says of the same run or runs, 0 to 1.

    Columns: `definition`, `formula` in words, `value`, `used_by`, `leaves_out`. `spans` are those of
    `goodput.attribution.spans`; several jobs count as one: sum over sum. Kept steps need the `log`, with steps, and
    the time of a reference step; without that time the row is left out. Raises BadInput for a log without steps.

    A job of 2 nodes trains 60 minutes, saves 5, trains 10 that are lost, is down 5 + 10 + 15 (detection, waiting,
    restart) and trains 45 more on 1 node; 150 minutes in all. Productive are 60 x 2 + 45 = 165 of 255 node-minutes;
    105 of 150 minutes, and of 140 without the waiting; it ran for 120. The hand-made log of the tests is this one.
    """
    held = hours(spans)
    time = held.groupby(spans["category"], observed=False).sum()
    wall, gpu_hours = time.sum(), spans["gpu_hours"]
    values = {
        "goodput": gpu_hours[spans["category"] == "productive"].sum() / gpu_hours.sum(),
        "ETTR": time["productive"] / wall,
        "without rescheduling": time["productive"] / (wall - time["waiting"]),
        "running share": held[spans["running"]].sum() / wall,
    }
    if step_seconds is not None:
        values["kept steps"] = reference_steps(log, spans, step_seconds)[1]
    table = pd.DataFrame([TEXTS[name] for name in values], columns=["formula", "used_by", "leaves_out"])
    table.insert(0, "definition", list(values))
    table.insert(2, "value", list(values.values()))
    return table
