"""What is assumed: seven files that say what they change, values that never change, doors that name the key."""

import copy
import tomllib

import pytest
from pydantic import ValidationError

from goodput import checkpoint
from goodput.errors import BadInput
from goodput.scenario import SEVEN, Scenario, load_scenario, parse_changes, parse_value
from goodput.scenario_file import SCENARIOS

BASELINE = load_scenario("baseline")


def differences(one: dict, other: dict, path: str = "") -> dict:
    """Return the dotted paths at which two nested tables differ, with the value of the second."""
    found = {}
    for key in {**one, **other}:
        a, b = one.get(key), other.get(key)
        if isinstance(a, dict) and isinstance(b, dict):
            found |= differences(a, b, f"{path}{key}.")
        elif a != b:
            found[f"{path}{key}"] = b
    return found


# --- the seven -----------------------------------------------------------------------------------------------------


def test_the_folder_holds_the_seven_and_no_other():
    assert sorted(file.stem for file in SCENARIOS.glob("*.toml")) == sorted(SEVEN)
    assert [load_scenario(name).name for name in SEVEN] == list(SEVEN)


FAST = {
    "causes.fabric_link.detection_minutes": 5,
    "causes.collective_hang.detection_minutes": 5,
    "causes.storage_stall.detection_minutes": 5,
}
CHANGES = {
    "baseline": {},
    "daly-interval": {"checkpoint.interval_minutes": "daly"},
    "async-checkpoint": {"checkpoint.interval_minutes": "daly", "checkpoint.blocking_minutes": 0.5},
    "fast-hang-detection": FAST,
    "no-spares": {"pool.spares": 0},
    "firmware-regression": {"cohorts.batch_b": {"mtbf_hours": 600, "nodes": 32}},
    "combined": {
        **FAST,
        "checkpoint.interval_minutes": "daly",
        "checkpoint.blocking_minutes": 0.5,
        "pool.spares": 8,
    },
}


@pytest.mark.parametrize("name", SEVEN)
def test_a_scenario_differs_from_the_baseline_only_in_what_it_is_for(name):
    base, other = BASELINE.model_dump(), load_scenario(name).model_dump()
    assert differences(base, other | {"name": "baseline"}) == CHANGES[name]


@pytest.mark.parametrize("name", [name for name in SEVEN if name != "baseline"])
def test_a_scenario_file_says_only_what_it_changes(name):
    said = tomllib.loads((SCENARIOS / f"{name}.toml").read_text("utf-8"))
    base = load_scenario(said.pop("base")).model_dump()
    said.pop("name")
    leaves = differences({}, {key: value for key, value in said.items() if not isinstance(value, dict)})
    for table in (key for key, value in said.items() if isinstance(value, dict)):
        leaves |= {path: value for path, value in differences(base[table], _merged(base[table], said[table])).items()}
    assert len(leaves) == _count(said) or name == "firmware-regression"  # its cohort is new as a whole


def _merged(base: dict, said: dict) -> dict:
    out = copy.deepcopy(base)
    for key, value in said.items():
        out[key] = _merged(out.get(key) or {}, value) if isinstance(value, dict) else value
    return out


def _count(said: dict) -> int:
    return sum(_count(value) if isinstance(value, dict) else 1 for value in said.values())


@pytest.mark.parametrize("name", SEVEN)
def test_each_value_carries_its_reason(name):
    """In its line, or above its table or file; of a cause, `share`, `scope` and the rest are explained as a whole."""
    lines = (SCENARIOS / f"{name}.toml").read_text("utf-8").splitlines()
    assert lines[0].startswith("# ")
    as_a_whole = ("base", "name", "scope", "share", "detection_minutes", "needs_repair")
    values = [line for line in lines if "=" in line and not line.startswith("#")]
    own = [line for line in values if line.split("=")[0].strip() not in as_a_whole]
    assert all("#" in line for line in own) or len(own) == 1


# --- what follows from them ----------------------------------------------------------------------------------------


def test_the_nominal_mtbi_is_by_hand():
    """1 / (128 / 3,000 h + 1 / 40 h) = 14.778 h; with 32 of 132 nodes at 600 h, 9.171 h."""
    assert BASELINE.nominal_mtbi_hours == pytest.approx(1 / (128 / 3000 + 1 / 40), rel=1e-12)
    assert BASELINE.nominal_mtbi_hours == pytest.approx(14.778, abs=0.0005)
    mean_rate = (100 / 3000 + 32 / 600) / 132
    firmware = load_scenario("firmware-regression")
    assert firmware.nominal_mtbi_hours == pytest.approx(1 / (128 * mean_rate + 1 / 40), rel=1e-12)
    assert firmware.nominal_mtbi_hours == pytest.approx(9.171, abs=0.0005)


@pytest.mark.parametrize(
    ("name", "minutes"), [("baseline", 30), ("daly-interval", 90.860889), ("async-checkpoint", 29.4451)]
)
def test_the_interval_is_that_of_the_formula_at_the_nominal_mtbi(name, minutes):
    assert load_scenario(name).interval_minutes == pytest.approx(minutes, rel=1e-6)


@pytest.mark.parametrize("formula", ["young", "daly", "optimal"])
def test_each_formula_may_stand_in_place_of_a_number(formula):
    asked = BASELINE.but({"checkpoint.interval_minutes": formula}).interval_minutes
    assert asked == getattr(checkpoint, f"{formula}_interval")(BASELINE.nominal_mtbi_hours * 60, 5)


def test_the_overhead_is_the_mean_detection_and_the_restart():
    """Node failures 128 / 3,000 an hour, job failures 1 / 40, each with its own mean detection."""
    node, job = 128 / 3000, 1 / 40
    detection = node * (0.45 * 3 + 0.10 * 5 + 0.45 * 30) + job * (0.6 * 1 + 0.4 * 30)
    assert BASELINE.overhead_minutes == pytest.approx(20 + detection / (node + job), rel=1e-12)


def test_the_bad_cohort_is_the_last_of_the_pool():
    """28 of its 32 nodes are in the job at the start, and all four spares are of it."""
    firmware = load_scenario("firmware-regression")
    assert list(firmware.cohort_sizes.items()) == [("default", 100), ("batch_b", 32)]
    assert firmware.job.nodes - firmware.cohort_sizes["default"] == 28


def test_without_job_failures_there_are_only_those_of_nodes():
    only_nodes = BASELINE.but({"job_failures.mtbi_hours": None})
    assert only_nodes.job_failures_per_hour == 0
    assert only_nodes.nominal_mtbi_hours == pytest.approx(3000 / 128, rel=1e-12)


# --- a scenario is a value -----------------------------------------------------------------------------------------


def test_but_returns_another_scenario_and_leaves_the_first_as_it_was():
    before = copy.deepcopy(BASELINE.model_dump())
    other = BASELINE.but({"pool.spares": 8, "causes.host.detection_minutes": 1}, name="other")
    assert differences(before, other.model_dump()) == {
        "name": "other",
        "pool.spares": 8,
        "causes.host.detection_minutes": 1,
    }
    assert BASELINE.model_dump() == before


def test_a_scenario_never_shares_the_table_that_changed_it():
    cohort = {"mtbf_hours": 600.0, "nodes": 32}
    other = BASELINE.but({"cohorts.batch_b": cohort})
    cohort["mtbf_hours"] = 1.0
    assert other.cohorts["batch_b"].mtbf_hours == 600


def test_but_without_changes_is_the_same_value():
    assert BASELINE.but({}) == BASELINE
    assert BASELINE.but({"pool.spares": 8}) != BASELINE


def test_a_part_cannot_be_assigned_to():
    for part, name in ((BASELINE, "days"), (BASELINE.pool, "spares"), (BASELINE.causes["host"], "share")):
        with pytest.raises(ValidationError, match="frozen"):
            setattr(part, name, 1)


def test_what_was_derived_before_a_change_is_derived_anew_after_it():
    assert BASELINE.cohort_sizes == {"default": 132}
    assert BASELINE.but({"pool.spares": 8}).cohort_sizes == {"default": 136}


# --- files of one's own --------------------------------------------------------------------------------------------


def write(folder, name: str, text: str):
    path = folder / name
    path.write_text(text, "utf-8")
    return path


def test_a_file_of_ones_own_may_start_from_a_known_scenario(tmp_path):
    path = write(tmp_path, "mine.toml", 'base = "no-spares"\nname = "mine"\n[pool]\nspares = 2\n')
    assert differences(BASELINE.model_dump(), load_scenario(path).model_dump()) == {"name": "mine", "pool.spares": 2}


def test_a_base_beside_the_file_comes_before_a_known_one(tmp_path):
    write(tmp_path, "mine.toml", 'base = "baseline"\nname = "mine"\ndays = 7\n')
    path = write(tmp_path, "ours.toml", 'base = "mine"\nname = "ours"\n')
    assert load_scenario(path).days == 7


def test_a_chain_of_bases_merges_deep(tmp_path):
    """Each file keeps what the one before said of the same table."""
    write(tmp_path, "one.toml", 'base = "baseline"\nname = "one"\n[causes.host]\ndetection_minutes = 1\n')
    path = write(tmp_path, "two.toml", 'base = "one"\nname = "two"\n[causes.host]\nneeds_repair = false\n')
    host = load_scenario(path).causes["host"]
    assert (host.detection_minutes, host.needs_repair, host.share) == (1, False, 0.10)


@pytest.mark.parametrize(("name", "base"), [("self", "self"), ("one", "two"), ("two", "one")])
def test_a_base_that_leads_back_is_refused(tmp_path, name, base):
    write(tmp_path, "self.toml", 'base = "self"\n')
    write(tmp_path, "one.toml", 'base = "two"\n')
    write(tmp_path, "two.toml", 'base = "one"\n')
    with pytest.raises(BadInput, match=r"\.toml: base='\w+' must name another scenario, and not lead back"):
        load_scenario(tmp_path / f"{name}.toml")


def test_a_syntax_error_names_the_file_and_the_line(tmp_path):
    path = write(tmp_path, "bad.toml", 'name = "bad"\ndays = = 3\n')
    with pytest.raises(BadInput, match=r"bad\.toml: must be a readable TOML file: .*line 2"):
        load_scenario(path)


def test_an_error_in_a_file_names_the_file_and_the_key(tmp_path):
    path = write(tmp_path, "mine.toml", 'base = "baseline"\n[pool]\nsparse = 2\n')
    with pytest.raises(BadInput) as refused:
        load_scenario(path)
    assert str(refused.value) == f"{path}: pool.sparse must be a known key; did you mean 'spares'?"


def test_a_missing_file_is_named_as_it_was_asked_for(tmp_path):
    with pytest.raises(BadInput, match=r"sub/mine\.toml"):
        load_scenario(tmp_path / "sub" / "mine.toml")


def test_a_missing_file_that_is_named_as_a_known_scenario_gets_no_empty_hint(tmp_path, monkeypatch):
    """`combined.toml` is a file that does not exist here: "did you mean 'combined'?" for 'combined' would not help."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadInput, match=r"combined\.toml"):
        load_scenario("combined.toml")


def test_an_unknown_base_names_the_file_that_asks_for_it(tmp_path):
    path = write(tmp_path, "mine.toml", 'base = "basline"\n')
    with pytest.raises(BadInput, match=r"mine\.toml.*basline.*did you mean 'baseline'\?"):
        load_scenario(path)


# --- what is refused -----------------------------------------------------------------------------------------------

REFUSED = [
    ({"pool.sparse": 8}, "pool.sparse must be a known key; did you mean 'spares'?"),
    ({"checkpoint.interval": 8}, "checkpoint.interval must be a known key; did you mean 'interval_minutes'?"),
    ({"causes.host.detection": 8}, "causes.host.detection must be a known key; did you mean 'detection_minutes'?"),
    ({"cohorts.default.mtbf": 8}, "cohorts.default.mtbf must be a known key; known: mtbf_hours, nodes"),
    ({"checkpiont": 8}, "checkpiont must be a known key; did you mean 'checkpoint'?"),
    ({"days.weeks": 4}, "days.weeks must name a key: days is a value and has none below it"),
    ({"causes.host.share": 0.2}, "shares of causes with scope node must add up to 1, not 1.1"),
    ({"causes.software_crash.share": 0.5}, "shares of causes with scope job must add up to 1, not 0.9"),
    ({"causes.host.share": 1.5}, "causes.host.share=1.5 must be less than or equal to 1"),
    ({"causes.host.share": -0.1}, "causes.host.share=-0.1 must be greater than or equal to 0"),
    ({"days": 0}, "days=0 must be greater than 0"),
    ({"days": -28}, "days=-28 must be greater than 0"),
    ({"days": float("nan")}, "days=nan must be a finite number"),
    ({"days": float("inf")}, "days=inf must be a finite number"),
    ({"days": True}, "days=True must be a number"),
    ({"days": "28"}, "days='28' must be a number"),
    ({"job.nodes": 0}, "job.nodes=0 must be greater than or equal to 1"),
    ({"job.nodes": 12.5}, "job.nodes=12.5 must be a whole number"),
    ({"job.restart_minutes": 0}, "job.restart_minutes=0 must be a number above 0, or a distribution"),
    (
        {"causes.host.detection_minutes": -3},
        "causes.host.detection_minutes=-3 must be a number of 0 or more, or a distribution",
    ),
    ({"cohorts.default.mtbf_hours": -3000}, "cohorts.default.mtbf_hours=-3000 must be greater than 0"),
    ({"job_failures.mtbi_hours": 0}, "job_failures.mtbi_hours=0 must be greater than 0"),
    ({"repair.mean_hours": 0}, "repair.mean_hours=0 must be a number above 0, or a distribution"),
    ({"repair.crews": 0}, "repair.crews=0 must be greater than or equal to 1"),
    ({"pool.spares": -1}, "pool.spares=-1 must be greater than or equal to 0"),
    ({"checkpoint.blocking_minutes": 0}, "checkpoint.blocking_minutes=0 must be greater than 0"),
    ({"causes.host.needs_repair": "yes"}, "causes.host.needs_repair='yes' must be true or false"),
    ({"causes.host.scope": "rack"}, "causes.host.scope='rack' must be 'node' or 'job'"),
    (
        {"causes.software_crash.needs_repair": True},
        "causes.software_crash: needs_repair must be false where scope is job: no node is to blame",
    ),
    ({"cohorts.default.nodes": 5}, "cohorts must hold 132 nodes (job and spares), not 5"),
    ({"cohorts.b": {"nodes": 133, "mtbf_hours": 1}}, "cohorts must hold 132 nodes (job and spares), not 133"),
    ({"cohorts.b": {"mtbf_hours": 1}}, "cohorts must leave out nodes at most once, not in default, b"),
    ({"job": {}}, "job.nodes must be given"),
]


@pytest.mark.parametrize(("changes", "said"), REFUSED)
def test_a_bad_value_is_refused_in_one_line_that_names_scenario_key_and_rule(changes, said):
    with pytest.raises(BadInput) as refused:
        BASELINE.but(changes)
    assert str(refused.value).removeprefix("baseline: ").removeprefix("scenario: ") == said


@pytest.mark.parametrize("bad", [0, -30, float("nan"), float("inf"), True, "dally", None, [30]])
def test_an_interval_is_above_zero_or_a_formula(bad):
    with pytest.raises(BadInput) as refused:
        BASELINE.but({"checkpoint.interval_minutes": bad})
    rule = "must be a number above 0, or one of young, daly, optimal"
    assert str(refused.value) == f"baseline: checkpoint.interval_minutes={bad!r} {rule}"


@pytest.mark.parametrize("changes", [{"name": ""}, {"cohorts": {}}, {"causes": {}}, {"job": 5}])
def test_a_refusal_reads_as_a_sentence(changes):
    """`name='' must be ...`, not `must be String should have`."""
    with pytest.raises(BadInput) as refused:
        BASELINE.but(changes)
    assert "should" not in str(refused.value) and "instance" not in str(refused.value)


def test_a_misspelt_cause_is_met_with_the_nearest_name():
    with pytest.raises(BadInput, match="did you mean 'host'"):
        BASELINE.but({"causes.hots.detection_minutes": 1})


def test_an_unknown_scenario_is_met_with_the_nearest_name():
    with pytest.raises(BadInput) as refused:
        load_scenario("basline")
    assert str(refused.value) == "scenario: 'basline' must be a file or known; did you mean 'baseline'?"


def test_a_name_that_is_near_to_none_is_met_with_all_of_them():
    with pytest.raises(BadInput) as refused:
        load_scenario("zzz")
    assert all(name in str(refused.value) for name in SEVEN)


def test_a_long_value_does_not_make_a_long_line():
    with pytest.raises(BadInput) as refused:
        BASELINE.but({"days": "x" * 10_000})
    assert len(str(refused.value)) < 200 and "\n" not in str(refused.value)


def test_a_scenario_of_nothing_says_what_is_missing(tmp_path):
    with pytest.raises(BadInput, match=r"empty\.toml: name must be given"):
        load_scenario(write(tmp_path, "empty.toml", ""))


# --- changes as text -----------------------------------------------------------------------------------------------


def test_a_change_is_read_as_toml_else_kept_as_text():
    asked = ["pool.spares=8", "days = 1.5", "causes.host.needs_repair=false", "checkpoint.interval_minutes=daly"]
    assert parse_changes(asked) == {
        "pool.spares": 8,
        "days": 1.5,
        "causes.host.needs_repair": False,
        "checkpoint.interval_minutes": "daly",
    }
    assert parse_value('"8"') == "8"


@pytest.mark.parametrize("pair", ["pool.spares", "=8", ""])
def test_a_change_that_is_no_pair_is_refused_with_an_example(pair):
    with pytest.raises(BadInput, match=r"--set: .* must be path=value, as in pool\.spares=8"):
        parse_changes([pair])


def test_a_scenario_can_be_built_from_plain_data():
    assert Scenario.model_validate(BASELINE.model_dump()) == BASELINE
