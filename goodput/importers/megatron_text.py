"""From the text of a Megatron-LM log to records, in its order: which lines say something, and what."""

import re
from bisect import bisect_left
from datetime import datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

from goodput.errors import printable
from goodput.events import Finding
from goodput.importers.megatron_records import SECOND, Alarm, Fact, Mark, Save, Step
from goodput.line import moment
from goodput.lines import read_blocks

CAUSE, HANG = "not_logged", "collective_hang"
NO_YEAR = 2000  # what a file without any year is read as: a leap year, so that each date exists
CLOCK_MINUTES = 10  # lines of several processes may stand this far out of order
LONGEST = 40 * 86_400 * SECOND  # a longer interval or save is a wrong number
_NUMBER = r"(\d{1,12}(?:\.\d{1,9})?)"
_STAMP = re.compile(r"(\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d)([.,]\d{1,9})?")
_ITERATION = re.compile(r"\biteration[ =]+(\d{1,15})\s*/\s*\d+\s*\|")
_MEAN = re.compile(rf"elapsed[ _]time[ _]per[ _]iteration[ _(]*ms\)?\s*[:=]\s*{_NUMBER}\s*\|")
_TORN = re.compile(r"\] +iteration\b")
_SAVING = re.compile(r"\bsaving checkpoint at iteration\s+(\d{1,15})")
_SCHEDULED = re.compile(r"scheduled an async checkpoint save at iteration\s+(\d{1,15})")
_SAVED = re.compile(r"successfully saved (?:local )?checkpoint (?:from|at) iteration\s+(\d{1,15})", re.IGNORECASE)
_TIMER = re.compile(rf"\bsave-checkpoint(?:-non-persistent)?[ .]*:\s*(?:\(\s*[\d.]+,\s*)?{_NUMBER}?")
_TIME_OF_RANK = re.compile(rf"^\s*rank\s+\d+:\s+{_NUMBER}\s*$")
_LOADING = re.compile(r"\bload(?:ing|ed) (?:\w+ )?checkpoint from\b(?:.*\bat iteration\s+(\d{1,15}))?")
_FROM_NOTHING = "will not load any checkpoints"
_DATETIME = re.compile(r"\[([^\][]{1,120})\] datetime: ")
_WORLD = re.compile(r"using world size: (\d{1,7})\b|\bworld_size [.]+ (\d{1,7})\s*$")
_LOG_INTERVAL = re.compile(r"\blog_interval [.]+ (\d{1,9})\s*$")
_NCCL = re.compile(r"\[[EFWI](?:(\d{1,2})(\d\d) (\d\d:\d\d:\d\d(?:\.\d{1,9})?) )?[^\]]*ProcessGroupNCCL\.cpp")
_TIMEOUT = re.compile(
    r"Watchdog caught collective operation timeout: \w+\((?:SeqNum=(\d{1,15}))?.*?ran for (\d{1,12}) "
)
_STUCK = re.compile(r"watchdog got stuck for (\d{1,9}) seconds")
_ENQUEUED = re.compile(r"last enqueued(?: NCCL)? work: (\d{1,15})")
_RANK = re.compile(r"\[rank(\d{1,9})\]:|\bRank (\d{1,9})\]")
_CANCELLED = re.compile(r"\*\*\* (JOB|STEP) .*CANCELLED AT (\S{19})(?:.*DUE TO ([A-Z ]+))?")
_MEMORY = re.compile(r"OutOfMemoryError|CUDA out of memory")
_READ = re.compile(
    rb"iteration|checkpoint|\] datetime: |world.size|log_interval|ProcessGroupNCCL|CANCELLED AT|ut of memory|OutOfMem"
    rb"|^\s*rank +\d"
)
DUE_TO = {"TIME LIMIT": "time_limit", "PREEMPTION": "preemption", "NODE FAILURE": "node_lost"}


class Text:
    """The lines of a file that say something, in its order."""

    def __init__(self, path: Path, zone: ZoneInfo | None):
        self.path, self.zone = path, zone or ZoneInfo("UTC")
        self.findings = [
            Finding("note", "no-zone", printable(path), None, f"times have no zone: read as {self.zone.key}")
        ]
        self.records: list[Step | Save | Mark | Fact] = []
        self.saves: list[Save] = []
        self.alarms: list[tuple[tuple[int, int, str] | None, Alarm]] = []
        self.dated: list[tuple[int, int]] = []  # (line, time) of each line that says its year
        self.torn: dict[int, str] = {}
        self.log_interval: int | None = None
        self.has_unstamped = self.is_ambiguous = False
        self.line, self.latest, self.timer_line = 0, 0, 0
        self.seen: set[tuple] = set()
        self.doubles: list[int] = []

    def read(self) -> None:
        """Read the file, in blocks."""
        last = 0
        for block in read_blocks(self.path):
            for number, raw in enumerate(block.data.split(b"\n"), block.first_line):
                last = number if raw.strip() else last
                if _READ.search(raw):
                    self.line = number
                    self._read_line(raw.decode("utf-8", "replace").rstrip("\r\0"))
            if block.breaks_off:
                self.say("warning", "cut-file", None, "the packed file breaks off before its end: read up to there")
        for line, why in self.torn.items():
            if line == last:
                self.say("note", "cut-tail", line, f"the last line is cut off, as by a writer that was stopped ({why})")
            else:
                said = f"line could not be read ({why}); the time of its iterations is unattributed, numbers incomplete"
                self.say("warning", "unreadable", line, said)

    def say(self, severity: str, code: str, line: int | None, message: str) -> None:
        """Add a finding."""
        self.findings.append(Finding(severity, code, str(self.path), line, message))

    def _read_line(self, text: str) -> None:
        if found := _ITERATION.search(text):
            self._step(text, found)
        elif _TORN.search(text) and _STAMP.search(text):
            self.torn[self.line] = "its end is missing"
        elif found := _NCCL.search(text):
            self._alarm(text, found)
        elif "checkpoint" in text and self._save(text):
            pass
        elif _FROM_NOTHING in text:
            self.records.append(Fact(self.line, "load", 0))
        elif found := _LOADING.search(text):
            self.records.append(Fact(self.line, "load", int(found[1]) if found[1] else None))
        elif found := _DATETIME.search(text):
            self._take(Mark(self.line, self._time(text[found.end() :]), found[1]))
        else:
            self._read_rare(text)

    def _read_rare(self, text: str) -> None:
        if found := _WORLD.search(text):
            self.records.append(Fact(self.line, "world", int(found[1] or found[2]) or None))
        elif found := _LOG_INTERVAL.search(text):
            self.log_interval = int(found[1]) or None
        elif found := _CANCELLED.search(text):
            cause = DUE_TO.get((found[3] or "").strip())
            if cause or found[1] == "JOB":  # a step without a reason was ended by its launcher, for another one
                self._take(Mark(self.line, self._time(found[2]), cause or "user_cancel"))
        elif _MEMORY.search(text):
            self.records.append(Mark(self.line, None, "out_of_memory"))
        elif "validation loss at" in text:
            self.records.append(Fact(self.line, "evaluated"))
        elif (found := _TIME_OF_RANK.match(text)) and self.timer_line == self.line - 1:
            self._timer(found[1])

    def _step(self, text: str, found: re.Match) -> None:
        mean, stamp = _MEAN.search(text), _STAMP.search(text[: found.start()])
        if stamp is None:
            self.has_unstamped = True
            return
        time = self._time(stamp[0])
        if mean is None or time is None or float(mean[1]) * 1e3 > LONGEST:
            self.torn[self.line] = "its elapsed time is missing or absurd" if time is not None else "no such date"
            return
        slack = 0 if stamp[2] else SECOND - 1
        self._take(Step(self.line, time, slack, int(found[1]), float(mean[1]) * 1e3))

    def _take(self, record: Step | Mark) -> None:
        """Take a line with its time; the same one again is left out."""
        if record.time is not None and record[1:] in self.seen:
            self.doubles.append(record.line)
            return
        self.seen.add(record[1:])
        self.records.append(record)

    def _time(self, text: str) -> int | None:
        """Return the moment of a local time; one that the clock showed twice is read so that time goes on."""
        found = _STAMP.search(text)
        if found is None:
            return None
        said = (found[1] + (found[2] or "")).replace(",", ".")
        try:
            time = moment(said, self.zone)
            if self.zone.key != "UTC":
                time = self._in_order(said, time)
        except (ValueError, OverflowError):
            return None
        self.latest = time
        self.dated.append((self.line, time))
        return time

    def _in_order(self, said: str, time: int) -> int:
        """Return the later moment of a time that the clock showed twice where time would go back; else the first."""
        local = datetime.fromisoformat(said)
        first, second = (local.replace(tzinfo=self.zone, fold=fold).utcoffset() for fold in (0, 1))
        if first == second:
            return time
        if not self.is_ambiguous:
            self.is_ambiguous = True
            text = f"time {said} is ambiguous in {self.zone.key}: read so that time goes on"
            self.say("note", "ambiguous-time", self.line, text)
        is_back = time < self.latest - CLOCK_MINUTES * 60 * SECOND
        return time + max(0, (first - second) // timedelta(microseconds=1)) if is_back else time

    def _save(self, text: str) -> bool:
        if found := _SAVING.search(text):
            self._open_save(int(found[1]), self._time(text[: found.start()]))
        elif found := _SCHEDULED.search(text):
            self._save_of(int(found[1])).is_async = True
        elif found := _SAVED.search(text):
            save = self._save_of(int(found[1]))
            if save.done_line is None:
                # its timer had stopped before, or training went on
                save.is_async |= save.took is not None or isinstance(self.records[-1], Step)
                save.done_line, save.done = self.line, self._time(text[: found.start()])
                if save.began is not None and save.done is not None and not save.is_async:
                    save.took = max(0, save.done - save.began)
            if found := _TIMER.search(text):  # some launchers join lines
                self._timer(found[1])
        elif found := _TIMER.search(text):
            self._timer(found[1])
        else:
            return False
        return True

    def _open_save(self, iteration: int | None, time: int | None) -> Save:
        last = self.records[-1] if self.records else None
        if isinstance(last, Save) and last.iteration == iteration and last.is_cut:
            return last  # the same line twice
        save = Save(self.line, iteration, time)
        self.saves.append(save)
        self.records.append(save)
        return save

    def _save_of(self, iteration: int) -> Save:
        """Return the newest save of an iteration; one whose first line is lost begins here."""
        known = (save for save in reversed(self.saves[-64:]) if save.iteration == iteration)
        return next(known, None) or self._open_save(iteration, None)

    def _timer(self, milliseconds: str | None) -> None:
        self.timer_line = self.line
        if milliseconds is None:  # the times of the ranks stand on the next lines
            return
        save = self.saves[-1] if self.saves else None
        if save is None or (save.took is not None and isinstance(self.records[-1], Step)):
            save = self._open_save(None, None)
        save.took = max(round(min(float(milliseconds) * 1e3, LONGEST)), save.took or 0)

    def _alarm(self, text: str, stamp: re.Match) -> None:
        timeout, stuck, enqueued = _TIMEOUT.search(text), _STUCK.search(text), _ENQUEUED.search(text)
        if not (timeout or stuck or enqueued):
            return
        ran = int(timeout[2]) * 1000 if timeout else int(stuck[1]) * SECOND if stuck else None
        sequence = timeout[1] if timeout else enqueued[1] if enqueued else None
        who = _RANK.search(text)
        rank = int(who[1] or who[2]) if who else None
        date = (int(stamp[1]), int(stamp[2]), stamp[3]) if stamp[1] else None
        self.alarms.append((date, Alarm(self.line, None, rank, int(sequence) if sequence else None, ran)))
        if date is None and ran is not None:
            self.records.append(Mark(self.line, None, HANG))

    def dated_alarms(self) -> list[Alarm]:
        """Return the watchdog lines that have a time; the year is the one that brings it next to the dated lines."""
        found, lines = [], [line for line, _ in self.dated]
        for date, alarm in self.alarms:
            near = self.dated[max(0, bisect_left(lines, alarm.line) - 1)][1] if self.dated else None
            time = self._nearest(date, near) if date else None
            found += [alarm._replace(time=time)] if time is not None else []
        if found and not self.dated:
            said = f"no line says a year: read as {NO_YEAR}; order and lengths of time hold, the dates do not"
            self.say("warning", "no-year", found[0].line, said)
        return found

    def _nearest(self, date: tuple[int, int, str], near: int | None) -> int | None:
        year = NO_YEAR if near is None else datetime.fromtimestamp(near / 1e6, self.zone).year
        times = []
        for each in [year] if near is None else [year - 1, year, year + 1]:
            try:
                times.append(moment(f"{each:04}-{date[0]:02}-{date[1]:02} {date[2]}", self.zone))
            except ValueError:  # no such day
                continue
        return min(times, key=lambda time: abs(time - (near or 0)), default=None)
