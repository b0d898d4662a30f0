"""The events of a Megatron-LM job, told from the lives of its process."""

from bisect import bisect_left
from collections import Counter
from statistics import median
from typing import Any

from goodput.importers.megatron_lives import (
    DONE,
    STARTING,
    believed,
    cause_of,
    is_before,
    log_interval_of,
    opening_of,
    reason_of,
)
from goodput.importers.megatron_records import SECOND, Hang, Life, Opening, Save, Step
from goodput.importers.megatron_text import HANG, Text


class Story:
    """The events of the job, told in order of time: none lies before the one told last."""

    def __init__(self, text: Text, lives: list[Life], rest: Life, hangs: list[Hang]):
        self.text, self.lives, self.rest, self.hangs = text, lives, rest, list(hangs)
        self.rows: list[dict[str, Any]] = []
        self.reached = 0  # time
        self.iteration: int | None = None
        self.pace = median([pace for life in lives for pace in life.paces] or [0])
        self.unexplained: Counter[str] = Counter()

    def tell(self) -> None:
        """Write the rows of all lives and what lies between them."""
        for number, life in enumerate(self.lives):
            opening = opening_of(life, self._interval_of(life), self.iteration)
            is_first = number == 0 and not any(hang.detected <= opening.begin for hang in self.hangs)
            if not is_first:
                self._break(self.lives[number - 1] if number else Life(), life, opening)
            self._find_unused(life, opening, self.lives[number + 1 : number + 2])
            self._start(life, opening, is_first)
            self._train(life)
        self._finish()
        self._sum_up()

    def _interval_of(self, life: Life) -> int:
        return self.text.log_interval or log_interval_of([life], self.lives)

    def _tell(self, time: int, event: str, line: int, **fields: Any) -> None:
        self.reached = max(self.reached, time)
        self.rows.append({"time": self.reached, "event": event, "line": line, **fields})

    def _find_unused(self, life: Life, opening: Opening, following: list[Life]) -> None:
        for later in following:
            newest = later.loaded if later.loaded is not None else later.steps[0].iteration - 1
            for save in life.saves:
                save.is_unused = save.iteration is not None and save.iteration > newest
            unused = [save.iteration for save in life.saves if save.is_unused and save.done_line]
            if unused:
                said = f"the save of iteration {unused[-1]} was done, but {newest} was loaded: not counted as durable"
                self.text.say("warning", "save-not-loaded", later.steps[0].line, said)
            if later.loaded is not None and later.loaded < opening.base:
                said = f"iteration {later.loaded} was loaded: work of earlier runs is lost as well, but not counted"
                self.text.say("warning", "lost-more", later.steps[0].line, said)

    def _start(self, life: Life, opening: Opening, is_first: bool) -> None:
        step, saves = life.steps[0], life.saves_behind[0]
        if is_first and not opening.is_known:
            said = "the log does not begin with a start: seen from its first line on, lost work before it is not known"
            self.text.say("warning", "no-start", step.line, said)
        pace = median(life.paces or [self.pace])
        begin = min(max(self.reached, opening.begin), step.time)
        usual = pace * (step.iteration - opening.base) + sum(save.took or 0 for save in saves)
        excess = max(0, round(step.time - begin - usual)) if pace else 0
        if not pace and step.time > begin:
            said = "one iteration line alone: how much of its time is start-up cannot be told"
            self.text.say("note", "startup-unknown", step.line, said)
        size = {"nodes": life.gpus, "gpus_per_node": life.gpus and 1}
        if is_first:
            seen = [mark.time for mark in life.marks if is_before(mark, STARTING, step)]
            launched = min([begin, *seen[:1]])
            if launched < begin + excess:
                self._tell(launched, "launch", step.line, **size)
        self._tell(begin + excess, "start" if is_first else "running", step.line, **size, step=opening.base)
        self._saves(saves, begin + excess, pace, opening.base, step.time)

    def _train(self, life: Life) -> None:
        steps, saves = life.steps, life.saves_behind
        interval = self._interval_of(life)
        at = self.reached = max(self.reached, steps[0].time)
        for before, step, between in zip(steps, steps[1:], saves[1:], strict=False):
            at = self._interval(life, before, step, between, at, interval)
        self.iteration = steps[-1].iteration
        self._saves(saves[-1], at, median(life.paces or [self.pace]), self.iteration, None)
        self.reached = max(self.reached, at)
        self._become_durable(life)

    def _interval(self, life: Life, before: Step, step: Step, saves: list[Save], at: int, interval: int) -> int:
        """Tell what lies between two iteration lines; return the moment of the later one.

        In this order: what no line explains, saves, training. A stamp cut to seconds is the moment within its second
        that agrees with the timers.
        """
        missing = max(0, step.iteration - before.iteration - interval)
        taken = step.iteration - before.iteration - missing
        known = sum(save.took or 0 for save in saves)
        training = believed(step.mean * taken)
        end = max(at, min(max(round(at + known + training), step.time), step.time + step.slack))
        left = max(0, round(end - at - known - training))
        untimed = [save for save in saves if save.took is None and save.done is None and not save.is_cut]
        if not missing and left <= max(SECOND, training / 100):
            training, left = max(0, end - at - known), 0  # the stamps decide
        elif untimed and not missing:
            for save in untimed:
                save.took = left // len(untimed)
            left = 0
        if left:
            self._stand_still(life, before, step, missing, at, at + left)
        self._saves(saves, at + left, training / taken, before.iteration + missing, end)
        return max(end, self.reached)

    def _stand_still(self, life: Life, before: Step, step: Step, missing: int, start: int, end: int) -> None:
        """Tell of a stretch in which, as far as the log says, nobody trained."""
        at = bisect_left(life.evaluated, before.line)
        is_evaluation = at < len(life.evaluated) and life.evaluated[at] < step.line
        if missing:  # a save may be among what is missing
            self._tell(start, "gap", step.line)
            first, last = before.iteration + 1, before.iteration + missing
            said = f"no line tells of iterations {first} to {last}: {(end - start) / 1e6:.1f} s are unattributed"
            self.text.say("warning", "missing-lines", step.line, said)
        else:
            self._tell(start, "pause", step.line, cause="evaluation" if is_evaluation else None)
            self.unexplained["evaluation" if is_evaluation else "hole"] += end - start
        self._tell(end, "resume", step.line)

    def _saves(self, saves: list[Save], at: int, pace: float, iteration: int, limit: int | None) -> None:
        """Tell of saves from a moment on: each behind the training up to its iteration, none beyond the limit."""
        for save in saves:
            trained = 0 if save.iteration is None else max(0, save.iteration - iteration) * pace
            start = round(at + believed(trained)) if save.began is None else save.began
            start = start if limit is None else min(start, limit)
            never_durable = save.is_unused or (save.is_cut and limit is not None)
            fields = {"step": save.iteration, "id": save.id, "async": save.is_async or never_durable}
            self._tell(start, "checkpoint_start", save.line, **fields)
            if save.is_cut and limit is None:
                continue  # cut short by what ended this life
            end = self._end_of(save)
            at += max(0, end - self.reached)
            end = end if limit is None else min(end, limit)
            self._tell(end, "checkpoint_end", save.done_line or save.line, step=save.iteration)
            save.ended = self.reached

    def _end_of(self, save: Save) -> int:
        if save.took is not None:
            return self.reached + save.took
        if save.done is not None and not save.is_async:
            return save.done
        said = f"how long the save of iteration {save.iteration} took is not logged: its time is not in checkpoint"
        self.text.say("note", "no-save-time", save.line, said)
        return self.reached

    def _become_durable(self, life: Life) -> None:
        """Tell when async saves became durable: at their own stamp, or the next one, which is the latest it can be."""
        lines = [step.line for step in life.steps]
        for save in life.saves:
            if save.is_async and save.done_line is not None and not save.is_unused:
                at = bisect_left(lines, save.done_line)
                latest = life.steps[at].time if at < len(lines) else self.reached
                time = min(self.reached, max(save.ended, latest if save.done is None else save.done))
                fields = {"id": save.id, "step": save.iteration}
                self.rows.append({"time": time, "event": "checkpoint_durable", "line": save.done_line, **fields})

    def _break(self, before: Life, life: Life | None, opening: Opening | None) -> None:
        """Tell of the outage between two lives; at the end of the log there is no second one."""
        first = life.steps[0] if life else None
        marks = (life or self.rest).marks
        again = [mark.time for mark in marks if is_before(mark, STARTING, first)]
        again += [max(self.reached, min(opening.begin, first.time))] if opening else []
        hangs = [hang for hang in self.hangs if first is None or hang.detected <= first.time]
        self.hangs = self.hangs[len(hangs) :]
        ready = again[0] if again else None
        if before.steps and (not hangs or (again and again[0] < hangs[0].onset)):
            self._interrupt(before, ready, first)
        for hang in hangs:
            self._tell(hang.onset, "interrupt", hang.line, cause=HANG, suspect_rank=hang.suspect)
            self._tell(hang.detected, "detected", hang.line)
            ready = next((time for time in again if time >= hang.detected), again[-1] if again else None)
        if ready is not None:
            self._tell(ready, "nodes_ready", first.line if first else marks[0].line)

    def _interrupt(self, before: Life, ready: int | None, first: Step | None) -> None:
        why = reason_of(before)
        line = why.line if why else first.line if first else before.steps[-1].line
        cause = cause_of(why)
        if why is not None and why.time is not None:
            self._tell(why.time, "interrupt", line, cause=cause)
            self._tell(why.time, "detected", line)
        elif ready is None:
            self._tell(self.reached, "interrupt", line, cause=cause)
        else:
            said = "when the fault before it struck is not logged: from the last sign of life on time is unattributed"
            self.text.say("note", "no-fault-time", line, said)
            self._tell(ready, "interrupt", line, cause=cause, after=self.reached)
            self._tell(ready, "detected", line)

    def _finish(self) -> None:
        last = self.lives[-1] if self.lives else Life()
        why, marks = reason_of(last), [*last.marks, *self.rest.marks]
        done = next((mark for mark in last.marks if is_before(mark, DONE, None)), None)
        stopped = why if why is not None and why.time is not None and not self.rest.marks else None
        if (done or stopped) and not self.hangs:
            outcome = "completed" if done else cause_of(stopped)
            self._tell((done or stopped).time, "end", (done or stopped).line, outcome=outcome, step=self.iteration)
            return
        seen = [mark.time for mark in marks if mark.time is not None] + [hang.last for hang in self.hangs]
        if self.hangs or why is not None or self.rest.marks:
            self._break(last, None, None)
        line = max([row["line"] for row in self.rows[-1:]] + [each.line for each in (*last.steps, *self.rest.marks)])
        # an event that changes nothing: the log goes on until here
        self._tell(max([self.reached, *seen]), "resize", line, step=self.iteration)

    def _sum_up(self) -> None:
        if seconds := self.unexplained["evaluation"] / 1e6:
            said = f"evaluation took {seconds:.1f} s: that is no training, and unattributed"
            self.text.say("note", "evaluation", None, said)
        if seconds := self.unexplained["hole"] / 1e6:
            said = f"{seconds:.1f} s between iteration lines are in no timer of the log: unattributed"
            self.text.say("warning", "hole", None, said)
        if any(life.gpus for life in self.lives):
            said = "the log says how many GPUs there are, not how many nodes: each is counted as a node of one GPU"
            self.text.say("note", "no-nodes", None, said)
