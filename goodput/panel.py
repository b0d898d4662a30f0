"""Where are the dials? The what-if panel of JupyterLab and of the page that `make app` serves.

Like the desk of a mixing studio: a slider a setting, and the answer beside it. A change is played in small batches on
the kernel's own event loop, so a later change cancels an earlier one, and the page never waits for an old answer.
"""

import asyncio
import base64
import io
from html import escape
from pathlib import Path
from typing import Any

import ipywidgets as widgets
from matplotlib.figure import Figure

from goodput.drawing import signed_points
from goodput.errors import BadInput
from goodput.figures.what_if import draw_answer, what_changed
from goodput.logtext import written_whole
from goodput.parts import FORMULAS
from goodput.scenario import SEVEN, Scenario, load_scenario
from goodput.scenario_file import changes_as_toml
from goodput.text import between, number, percent
from goodput.what_if import DIALS, Answer, Question, changes_of, settings_of, stops_of

PAUSE_SECONDS = 0.01  # between two batches: long enough for the kernel to see that a slider has moved again
BY_HAND = "as set below"
TABLE_STYLE = "border-spacing:1em 0; white-space:nowrap; font-variant-numeric:tabular-nums"
WIDE = {"description_width": "9.5em"}


class Panel:
    """Dials for one scenario at a time, and what they do; `answer` is the newest answer, `box` the widget to show.

    `overrides` are dotted paths that differ from the scenario at the start. Without a running event loop a change is
    answered before it returns. Raises BadInput for a scenario, a path or a number that cannot be.
    """

    def __init__(
        self,
        scenario: str = "baseline",
        overrides: dict[str, Any] | None = None,
        seeds: int = 20,
        price_per_gpu_hour: float = 2.0,
        toml_file: str | Path = "what_if.toml",
        scenarios: tuple[str, ...] = SEVEN,
    ):
        self.seeds, self.price, self.toml_file = seeds, price_per_gpu_hour, Path(toml_file)
        self._known = {name: load_scenario(name) for name in dict.fromkeys([*scenarios, scenario])}
        self._task: asyncio.Task | None = None
        self._quiet = False  # while the panel itself moves its dials
        self._make_widgets(scenario)
        self._choose(self._known[scenario], dict(overrides or {}))
        self._answer_now()

    # --- what is asked ---

    def _choose(self, base: Scenario, overrides: dict[str, Any]) -> None:
        """Take another scenario as base, and set the dials to it, or to what differs from it."""
        self.base, self.question = base, Question(base, self.seeds, self.price)
        self._overrides = overrides
        start = base.but(overrides)
        self._at_start = settings_of(start)
        self._quiet = True
        for dial in DIALS:
            self._set_dial(dial, settings_of(base)[dial.path], self._at_start[dial.path], start)
        self._quiet = False

    def _set_dial(self, dial, base_value: Any, value: Any, start: Scenario) -> None:
        slider = self.dials[dial.path]
        if dial.path == "checkpoint.interval_minutes":
            self.rule.value = value if isinstance(value, str) else BY_HAND
            value = value if not isinstance(value, str) else float(f"{start.interval_minutes:.3g}")
            base_value = value if isinstance(base_value, str) else base_value
        stops = stops_of(dial, value)
        stops = stops_of(dial._replace(stops=tuple(stops)), base_value)
        slider.options, slider.value = [(_stop(stop), stop) for stop in stops], value

    def changed(self) -> Scenario:
        """Return the scenario as the dials stand; raise BadInput where they do not go together."""
        settings = {path: slider.value for path, slider in self.dials.items()}
        if self.rule.value != BY_HAND:
            settings["checkpoint.interval_minutes"] = self.rule.value
        moved = {path: value for path, value in settings.items() if value != self._at_start[path]}
        self.changes = self._overrides | changes_of(self.base.but(self._overrides), moved)
        return self.base.but(self.changes, name="what if" if self.changes else None)

    # --- how it is answered ---

    def _on_change(self, _: Any = None) -> None:
        if self._quiet:
            return
        self.dials["checkpoint.interval_minutes"].disabled = self.rule.value != BY_HAND
        if self._task:
            self._task.cancel()
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            self._answer_now()
        else:
            self._task = loop.create_task(self._answer_soon())

    async def _answer_soon(self) -> None:
        changed = self._changed_or_say()
        if changed is None:
            return
        for done in self.question.play(changed):
            self._say(f"{done} %" if done else "...")
            await asyncio.sleep(PAUSE_SECONDS)
        self._show(self.question.answer(changed))

    def _answer_now(self) -> None:
        changed = self._changed_or_say()
        if changed is not None:
            self._show(self.question.answer(changed))

    def _changed_or_say(self) -> Scenario | None:
        try:
            return self.changed()
        except BadInput as error:
            self._say(f"These settings do not go together: {error}. The figure shows the last answer.", wrong=True)
            return None

    def _show(self, answer: Answer) -> None:
        self.answer = answer
        self.headline.value = headline_html(answer)
        self.picture.value = picture_of(answer)
        self._say(f"{answer.table['seeds'].iloc[0]} seeds")

    def _say(self, text: str, wrong: bool = False) -> None:
        colour = "#b3261e" if wrong else "inherit"
        self.status.value = f'<span class="goodput-status" style="color:{colour}">{escape(text)}</span>'

    # --- what is written ---

    def _write(self, _: Any = None) -> None:
        """Write the scenario as the dials stand, as a TOML file that says only what it changes."""
        base = self.scenario.value
        base = str(Path(base).resolve()) if base.endswith(".toml") else base
        try:
            text = changes_as_toml(base, self.changed().name, self.changes)
            self.toml_file.parent.mkdir(parents=True, exist_ok=True)
            with written_whole(self.toml_file) as file:
                file.write(text.encode())
        except (OSError, ValueError, TypeError) as error:  # as of a None, which TOML cannot say
            self._say(f"Nothing was written. {error}", wrong=True)
        else:
            self._say(f"Written to {self.toml_file}")

    # --- how it looks ---

    def _make_widgets(self, scenario: str) -> None:
        self.scenario = widgets.Dropdown(options=list(self._known), value=scenario, description="Scenario", style=WIDE)
        self.rule = widgets.Dropdown(options=[BY_HAND, *FORMULAS], description="Interval", style=WIDE)
        self.dials = {dial.path: _slider(dial) for dial in DIALS}
        self.back = widgets.Button(description="Start again")
        self.write = widgets.Button(description="Write as TOML", tooltip=str(self.toml_file))
        self.status, self.headline = widgets.HTML(), widgets.HTML()
        self.picture = widgets.Image(format="png", layout={"width": "100%", "max_width": "52em"})
        for widget in (self.rule, *self.dials.values()):
            widget.observe(self._on_change, "value")
        self.scenario.observe(lambda _: self._start_again(), "value")
        self.back.on_click(lambda _: self._start_again())
        self.write.on_click(self._write)
        buttons = widgets.HBox([self.back, self.write])
        left = widgets.VBox([self.scenario, self.rule, *self.dials.values(), buttons, self.status])
        right = widgets.VBox([self.headline, self.picture], layout={"flex": "1 1 24em", "min_width": "20em"})
        left.layout = {"flex": "0 0 28em"}
        self.box = widgets.HBox([left, right], layout={"flex_flow": "row wrap"})

    def _start_again(self) -> None:
        self._choose(self._known[self.scenario.value], {})
        self._on_change()

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, Any]:
        """Return the live panel and, for a reader without a kernel, its picture and headline."""
        data = dict(self.box._repr_mimebundle_(**kwargs))
        packed = base64.b64encode(self.picture.value).decode()
        return {**data, "image/png": packed, "text/plain": what_changed(self.answer)}


def _slider(dial) -> widgets.SelectionSlider:
    unit = f", {dial.unit}" if dial.unit else ""
    return widgets.SelectionSlider(
        options=[0], description=f"{dial.label}{unit}", continuous_update=False, style=WIDE, layout={"width": "27em"}
    )


def _stop(value: Any) -> str:
    return value if isinstance(value, str) else f"{value:,g}"


def picture_of(answer: Answer) -> bytes:
    """Return the figure of an answer as PNG bytes."""
    figure, packed = Figure(figsize=(8, 6.4), layout="constrained"), io.BytesIO()
    draw_answer(answer, figure)
    figure.savefig(packed, format="png", dpi=100, metadata={"Software": None})
    return packed.getvalue()


def headline_html(answer: Answer) -> str:
    """Return goodput, the difference to the base, GPU-hours and money of an answer as a small table."""
    money, base, last = answer.money(), answer.table.iloc[0], answer.table.iloc[-1]
    rows = [
        ("Goodput", *(percent(row["goodput"]) for row in (base, last))),
        ("95 % interval of the mean", *(_interval(row) for row in (base, last))),
        ("Waste, GPU-hours a run", *(f"{hours:,.0f}" for hours in money["waste_gpu_hours"].iloc[[0, -1]])),
        ("Waste, $ a run", *(number(paid, 0) for paid in money["paid_for_waste"].iloc[[0, -1]])),
        ("Spares, GPU-hours a run", *(f"{hours:,.0f}" for hours in money["spare_gpu_hours"].iloc[[0, -1]])),
        ("$ a productive GPU-hour*", *(number(paid, 3) for paid in money.iloc[[0, -1], -1])),
    ]
    head = ("", answer.base.name, "what if")
    body = "".join(_html_row("td", row) for row in rows)
    table = f'<table style="{TABLE_STYLE}">{_html_row("th", head)}{body}</table>'
    note = f'<span style="font-size:0.9em">* jobs and spares paid at ${answer.price:,.2f} a GPU-hour</span>'
    return f'<div style="line-height:1.5"><b style="font-size:1.25em">{_lead(answer, last)}</b>{table}{note}</div>'


def _lead(answer: Answer, row) -> str:
    said = f'Goodput <span class="goodput-value">{percent(row["goodput"])}</span>'
    if answer.is_base:
        return said
    shift = between(row["difference_low"], row["difference_high"], signed_points)
    return f"{said}, {signed_points(row['difference'])} points, paired by seed ({shift})"


def _interval(row) -> str:
    return between(100 * row["goodput_low"], 100 * row["goodput_high"], lambda share: number(share, 2))


def _html_row(tag: str, cells: tuple[str, ...]) -> str:
    first, *rest = (escape(cell) for cell in cells)
    others = "".join(f'<{tag} style="text-align:right">{cell}</{tag}>' for cell in rest)
    return f'<tr><{tag} style="text-align:left">{first}</{tag}>{others}</tr>'
