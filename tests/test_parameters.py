"""Parameters of notebooks: what is declared is taken, all else is refused in one line that says what is allowed."""

import pytest

from goodput.errors import BadInput
from goodput.parameters import check_parameters, injected, name_of_run, parse_parameters

DECLARED = {"seeds": int, "share": float, "scenarios": list[str], "overrides": dict, "limit": int | None}
VALUES = {"seeds": 20, "share": 0.5, "scenarios": ["baseline"], "overrides": {}, "limit": None}


def namespace(cells: str = "", **values) -> dict:
    """Return the globals of a notebook whose parameters are declared, with some values and a cell put in."""
    return {"__annotations__": DECLARED, "In": ["", "import pandas", cells], **VALUES, **values}


@pytest.mark.parametrize("values", [{}, {"share": 1}, {"limit": 3}, {"overrides": {"pool.spares": 8}}])
def test_what_fits_its_type_is_taken(values):
    check_parameters(namespace(**values))


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"seeds": "ten"}, "seeds='ten' must be a whole number"),
        ({"seeds": 2.5}, "seeds=2.5 must be a whole number"),
        ({"seeds": True}, "seeds=True must be a whole number"),
        ({"share": "1e1"}, "share='1e1' must be a number"),  # what YAML makes of 1e1
        ({"share": float("nan")}, "share=nan must be a finite number"),
        ({"scenarios": "[baseline]"}, r"scenarios='\[baseline\]' must be a list"),  # a list given as text
        ({"scenarios": [1]}, "scenarios.0=1 must be text"),
        ({"overrides": [1]}, r"overrides=\[1\] must be a table of keys"),
    ],
)
def test_what_does_not_fit_its_type_is_refused_with_what_was_given_and_what_is_wanted(values, said):
    with pytest.raises(BadInput, match=f"^parameters: {said}"):
        check_parameters(namespace(**values))


def test_a_name_that_is_not_declared_is_refused_with_those_that_are():
    with pytest.raises(BadInput, match="seedz=5 must be one of: seeds, share, scenarios, overrides, limit"):
        check_parameters(namespace("# Parameters\nseedz = 5\n", seedz=5))


def test_variables_of_the_notebook_itself_are_no_parameters():
    """So that the cell can be run again after the others."""
    check_parameters(namespace("causes = 5\n", causes=5))


def test_a_notebook_without_parameters_takes_none():
    with pytest.raises(BadInput, match="spares=9 must be left out, the notebook declares no parameters"):
        check_parameters({"In": ["# Parameters\nspares = 9\n"], "spares": 9})


def test_each_value_that_papermill_writes_is_read_back():
    cell = '# Parameters\na = None\nb = [1, -2.5]\nc = {"x": True}\nd = \'say "hi"\'\n'
    assert injected(["x = 1", cell]) == {"a": None, "b": [1, -2.5], "c": {"x": True}, "d": 'say "hi"'}


def test_infinity_which_is_no_literal_is_read_back_as_it_was_written():
    assert injected(["# Parameters\na = float('inf')\n"]) == {"a": "float('inf')"}


@pytest.mark.parametrize("pair", ["seeds", "=5", "seeds: 5"])
def test_a_parameter_is_name_and_value(pair):
    with pytest.raises(BadInput, match="must be name=value"):
        parse_parameters([pair])


def test_a_value_that_is_no_yaml_is_refused_in_one_line():
    with pytest.raises(BadInput, match="must have a value that reads as YAML") as refused:
        parse_parameters(["overrides={pool"])
    assert "\n" not in str(refused.value)


def test_a_value_keeps_the_type_that_yaml_gives_it():
    assert parse_parameters(["a=007x", "b=[1, 2]", "c=true", "d=null", "e=0.5", "f="]) == {
        "a": "007x", "b": [1, 2], "c": True, "d": None, "e": 0.5, "f": None
    }  # fmt: skip


def test_the_name_of_an_output_gives_way_to_new_parameters_and_never_leaves_its_folder():
    once = name_of_run("60_what_if", {"seeds": 5})
    assert name_of_run(once, {"seeds": 9}) == "60_what_if__seeds=9"
    assert name_of_run(once, {}) == once
    assert name_of_run("40_your_log", {"log": "../../etc/x y.jsonl"}) == "40_your_log__log=..-..-etc-x-y.jsonl"


def test_long_parameters_that_differ_at_their_end_have_names_that_differ():
    one, other = (name_of_run("40_your_log", {"log": "x" * 300 + end}) for end in "ab")
    assert one != other and max(len(one), len(other)) <= 120


@pytest.mark.parametrize(
    "value",
    ["2024-13-45", "9" * 5000, "[" * 3000, "&a [*a]", "2024-01-01", "{1: 2, a: 3}", "!!set {a, b}", r'"\uD83D"'],
)
def test_a_value_that_a_notebook_cannot_keep_is_refused_in_one_short_line(value):
    """No such day; too many digits, too deep, within itself; a date, keys that have no order, a set; no UTF-8."""
    with pytest.raises(BadInput, match=r"must have a value that reads as YAML|must be nested less") as refused:
        parse_parameters([f"a={value}"])
    assert "\n" not in str(refused.value) and len(str(refused.value)) < 400


def test_the_name_of_an_output_is_short_enough_in_bytes():
    name = name_of_run("40_your_log", {"log": "作" * 300})
    assert len(name.encode()) <= 120 and name.startswith("40_your_log__log=作")


def test_a_list_of_nothing_is_refused():
    with pytest.raises(BadInput, match=r"^parameters: scenarios=\[\] must be a list that is not empty"):
        check_parameters(namespace(scenarios=[]))
