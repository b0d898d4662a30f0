"""A study: its file, its points, and what they say. Laws of designs and of indices, and answers known by hand."""

import re
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from goodput import sensitivity
from goodput.adaptive import runs_until
from goodput.design import design, scenarios_of
from goodput.errors import BadInput
from goodput.experiment import compare, experiment, sweep
from goodput.scenario import load_scenario
from goodput.sensitivity import expected_results, results_of, run_study, sobol_indices, storable, tornado, what_moves
from goodput.study import RESERVED, Parameter, load_study, study_of

EXAMPLE = Path(__file__).parents[1] / "data" / "studies" / "what_moves_goodput.toml"
SMALL = load_scenario("baseline").but({"days": 2}, name="small")
UNIT = {name: {"low": 0, "high": 1} for name in ("x1", "x2", "x3")}
GRID = {"pool.spares": [0, 8], "checkpoint.interval_minutes": [30, "daly"]}


def asked(parameters: dict, **fields):
    """Return a study of a small scenario; by default its tornado alone."""
    return study_of({"base": SMALL, "seeds": 2, "design": "tornado", "parameters": parameters} | fields)


def played(function, n: int = 1024, parameters=UNIT) -> pd.DataFrame:
    """Return the results of Sobol's design as if goodput were a function of the parameters."""
    table = design(asked(parameters, design="sobol", samples=n))
    return table.assign(goodput=function(*(table[name] for name in parameters)))


def by_name(indices: pd.DataFrame) -> pd.DataFrame:
    return indices.set_index("parameter").sort_index()


# The points


def test_a_grid_of_two_by_two_has_its_four_corners_behind_the_base_and_the_ends():
    table = design(asked(GRID, design="grid"))
    assert table["role"].tolist() == ["base", "low", "high", "low", "high", *["point"] * 4]
    corners = table.loc[table["role"] == "point", ["checkpoint.interval_minutes", "pool.spares"]]
    assert corners.to_numpy().tolist() == [[30, 0], [30, 8], ["daly", 0], ["daly", 8]]
    assert table["scenario"].tolist()[:4] == [
        "small",
        "checkpoint.interval_minutes=30",
        "checkpoint.interval_minutes=daly",
        "pool.spares=0",
    ]


@pytest.mark.parametrize("design_", ["grid", "latin-hypercube", "sobol", "tornado"])
def test_a_study_counts_its_scenarios_as_it_makes_them(design_):
    study = asked({**GRID, "days": {"low": 1, "high": 3, "steps": 5}}, design=design_, samples=8)
    expected = {"grid": 2 * 2 * 5, "latin-hypercube": 8, "sobol": 8 * 5, "tornado": 0}
    assert study.scenarios == 7 + expected[design_] == len(design(study)) == len(scenarios_of(study))


def test_a_latin_hypercube_has_one_point_in_each_stratum_of_each_parameter():
    ranges = {"a": {"low": 5, "high": 25}, "b": {"low": 1, "high": 1000, "scale": "log"}}
    table = design(asked(ranges, design="latin-hypercube", samples=50)).query("role == 'point'")
    shares = {"a": (table["a"] - 5) / 20, "b": np.log(table["b"]) / np.log(1000)}
    for share in shares.values():
        assert sorted((share * 50).astype(int)) == list(range(50))


def test_the_order_of_parameters_in_the_file_changes_nothing():
    for design_ in ("grid", "latin-hypercube", "sobol"):
        there, back = (
            asked(dict(each), design=design_, samples=8) for each in (GRID.items(), reversed(list(GRID.items())))
        )
        assert list(there.parameters) == list(back.parameters) and there == back
        pd.testing.assert_frame_equal(design(there), design(back))
        assert scenarios_of(there) == scenarios_of(back)


def test_another_seed_of_the_design_gives_other_points_and_the_same_seed_the_same():
    study = asked(UNIT, design="sobol", samples=8)
    assert design(study).equals(design(study.but(design_seed=1)))
    assert not design(study).equals(design(study.but(design_seed=2)))


def test_each_page_of_sobols_design_has_one_column_of_b_and_all_others_of_a():
    table = design(asked(UNIT, design="sobol", samples=16))
    a, b = (table.loc[table["role"] == role, list(UNIT)].to_numpy() for role in "AB")
    for at, (_, page) in enumerate(table[table["role"] == "AB"].groupby("moved", sort=False)):
        other = [column for column in range(3) if column != at]
        assert (page[list(UNIT)].to_numpy()[:, at] == b[:, at]).all()
        assert (page[list(UNIT)].to_numpy()[:, other] == a[:, other]).all()
    # 16 points of a scrambled Sobol sequence lie one in each sixteenth of each axis
    assert all(sorted((16 * column).astype(int)) == list(range(16)) for column in np.hstack([a, b]).T)


def test_whole_numbers_are_each_as_likely_and_both_ends_occur():
    shares = (np.arange(7000) + 0.5) / 7000
    values, counts = np.unique(Parameter(low=2, high=8, whole=True).at(shares), return_counts=True)
    assert values.tolist() == list(range(2, 9)) and set(counts) == {1000}
    assert set(Parameter(low=1, high=4, whole=True, scale="log").at(shares)) == {1, 2, 3, 4}


def test_a_log_scale_gives_each_factor_the_same_room():
    range_ = Parameter(low=10, high=1000, scale="log", steps=3)
    assert range_.levels() == pytest.approx([10, 100, 1000]) and range_.ends == (10, 1000)
    assert np.mean(np.array(range_.at(np.linspace(0, 0.999, 1000))) < 100) == pytest.approx(0.5, abs=0.01)


def test_no_value_lies_outside_its_range_by_the_last_bit():
    shares = np.append(np.linspace(0, 1, 1001)[:-1], np.nextafter(1, 0))
    for low, high in ((0.1, 0.99), (15, 180), (0.2, 5), (1 / 3, 7)):
        range_ = Parameter(low=low, high=high, scale="log", steps=7)
        assert min(range_.at(shares)) >= low and max(range_.at(shares)) <= high
        assert (range_.levels()[0], range_.levels()[-1]) == (low, high)


def test_steps_of_whole_numbers_are_played_once_each():
    assert Parameter(low=1, high=3, whole=True, steps=9).levels() == [1, 2, 3]


def test_a_parameter_may_move_several_paths_together_and_nothing_else():
    paths = ["causes.fabric_link.detection_minutes", "causes.storage_stall.detection_minutes"]
    study = asked({"timeouts": {"paths": paths, "low": 1, "high": 10}})
    assert scenarios_of(study)[1] == SMALL.but(dict.fromkeys(paths, 1.0), name="timeouts=1.0")
    assert design(study)["timeouts"].tolist() == [30, 1, 10]  # both are 30 in the base


def test_what_has_no_one_value_in_the_base_is_missing_there():
    apart = {"paths": ["causes.host.detection_minutes", "causes.fabric_link.detection_minutes"], "values": [1, 2]}
    table = design(asked({"apart": apart, "repair.crews": [1, 2]}))
    assert table.loc[0, ["apart", "repair.crews"]].isna().all()
    assert table["repair.crews"].dropna().tolist() == [1, 2]


# What is played


def test_a_study_of_one_parameter_equals_a_sweep():
    values = [1, 4]
    results = run_study(asked({"pool.spares": values}, design="grid", seeds=3))
    swept = sweep(SMALL, "pool.spares", values, seeds=3)
    points = results[results["role"] == "point"].reset_index(drop=True)
    pd.testing.assert_frame_equal(points[swept.columns[1:]], swept.drop(columns="value"))
    assert points["pool.spares"].tolist() == values


def test_all_scenarios_meet_the_same_luck():
    """An end of a range that is as the base differs by nothing at all, and each point is what it is alone."""
    study = asked({"job.restart_minutes": {"low": 5, "high": 20}}, design="latin-hypercube", samples=3)
    results = run_study(study)
    same = results[results["role"] == "high"].iloc[0]
    assert same[["difference", "difference_low", "difference_high"]].tolist() == [0, 0, 0]
    alone = compare(experiment(scenarios_of(study)[-1:], 2))
    assert results["goodput"].iloc[-1] == alone["goodput"][0]


def test_seeds_are_added_until_each_difference_is_as_narrow_as_asked():
    study = asked({"pool.spares": [0, 8]}, seeds=4)
    wide, few = (
        results_of(study, runs_until(scenarios_of(study), half_width, study.seeds, most, jobs=1))
        for half_width, most in ((0.1, 200), (1e-9, 7))
    )
    half = ((wide["difference_high"] - wide["difference_low"]) / 2)[1:]
    assert half.max() <= 0.1 and wide["seeds"].nunique() == 1 and few["seeds"].tolist() == [7] * 3


def test_a_point_that_cannot_be_is_named_before_anything_is_played(monkeypatch):
    monkeypatch.setattr(sensitivity, "experiment", lambda *given: pytest.fail("something was played"))
    crowded = asked({"pool.spares": {"low": 0, "high": 8}})
    with pytest.raises(BadInput, match=r"^study: pool.spares=0.0 must be a whole number$"):
        run_study(crowded)
    repair = {"causes.storage_stall.scope": ["job", "node"], "job.nodes": [64, 128]}
    with pytest.raises(BadInput, match=r"^study: causes.storage_stall.scope=node: shares of causes with scope node"):
        run_study(asked(repair, design="grid"))
    with pytest.raises(
        BadInput, match=r"^study: pool.sparse=1: pool.sparse must be a known key; did you mean 'spares'"
    ):
        run_study(asked({"pool.sparse": [1, 2]}))


def test_a_combination_that_cannot_be_is_named_with_its_values():
    """Each alone is a scenario: 100 nodes in a cohort of 132 - 100, or 132 of 136; both together are too many."""
    base = SMALL.but({"cohorts.old": {"mtbf_hours": 1000.0, "nodes": 100}})
    study = asked({"cohorts.old.nodes": [100, 132], "pool.spares": [4, 0]}, base=base, design="grid")
    with pytest.raises(BadInput) as refused:
        scenarios_of(study)
    assert str(refused.value) == (
        "study: point 4 (cohorts.old.nodes=132, pool.spares=0): cohorts must hold 128 nodes (job and spares), not 132"
    )


# What it says


def test_a_tornado_is_sorted_by_swing_and_a_parameter_best_in_the_middle_swings_as_well():
    """By hand: `a` reaches 0.1 above and 0.1 below the base, `b` 0.05 and 0.25 below it: 0.2 and 0.25."""
    change = [0, 0.1, -0.1, -0.05, -0.25]
    table = design(asked({"a": [1, 2], "b": [3, 4]})).assign(goodput=np.add(0.8, change), difference=change)
    found = tornado(table.assign(difference_low=table["difference"] - 0.01, difference_high=table["difference"] + 0.01))
    assert found["parameter"].tolist() == ["b", "a"] and found["swing"].tolist() == pytest.approx([0.25, 0.2])
    assert found[["from", "to"]].to_numpy().tolist() == [[3, 4], [1, 2]]
    assert found["goodput_to"].tolist() == pytest.approx([0.55, 0.7])
    assert found["difference_from_low"].tolist() == pytest.approx([-0.06, 0.09])


def test_more_spares_and_faster_saves_are_never_worse():
    study = asked({"pool.spares": [0, 8], "checkpoint.blocking_minutes": {"low": 0.5, "high": 5}}, seeds=5)
    found = tornado(run_study(study)).set_index("parameter")
    assert found.at["pool.spares", "difference_to"] >= 0 > found.at["pool.spares", "difference_from"]
    assert found.at["checkpoint.blocking_minutes", "difference_from_low"] > 0


def test_of_a_linear_function_each_index_is_its_share_of_the_variance():
    """3 x1 + x2 with x from 0 to 1: variances 9/12 and 1/12, so 0.9, 0.1 and 0, alone as well as in all."""
    indices = by_name(sobol_indices(played(lambda a, b, c: 3 * a + b + 0 * c)))
    for name in ("first", "total"):
        assert indices[name].tolist() == pytest.approx([0.9, 0.1, 0], abs=0.01)
    assert indices.loc["x3", ["first", "total", "total_low", "total_high"]].tolist() == [0, 0, 0, 0]


def test_of_ishigamis_function_the_indices_are_those_known():
    """Ishigami and Homma (1990), a = 7, b = 0.1: first order 0.3139, 0.4424, 0; total 0.5576, 0.4424, 0.2437."""
    parameters = {name: {"low": -np.pi, "high": np.pi} for name in UNIT}
    results = played(lambda a, b, c: np.sin(a) + 7 * np.sin(b) ** 2 + 0.1 * c**4 * np.sin(a), 4096, parameters)
    indices = by_name(sobol_indices(results, resamples=200))
    known = pd.DataFrame({"first": [0.3139, 0.4424, 0], "total": [0.5576, 0.4424, 0.2437]}, indices.index)
    for name in known:
        assert indices[name].tolist() == pytest.approx(known[name].tolist(), abs=0.02)
        assert known[name].between(indices[f"{name}_low"], indices[f"{name}_high"]).all()


def test_a_product_is_all_interaction_where_its_factors_are_even_around_zero():
    """(x1 - 1/2)(x2 - 1/2): neither does anything alone, both do everything together."""
    indices = by_name(sobol_indices(played(lambda a, b, c: (a - 0.5) * (b - 0.5) + 0 * c)))
    assert indices["first"].tolist() == pytest.approx([0, 0, 0], abs=0.03)
    assert indices["total"].tolist() == pytest.approx([1, 1, 0], abs=0.05)


def test_indices_are_those_of_scipy():
    """The slow twin: `scipy.stats.sobol_indices`, given the same values."""
    from scipy.stats import sobol_indices as theirs

    results = played(lambda a, b, c: np.exp(a) * b + c**2, 64)
    y = {role: results.loc[results["role"] == role, "goodput"].to_numpy() for role in ("A", "B", "AB")}
    twin = theirs(func={"f_A": y["A"][None], "f_B": y["B"][None], "f_AB": y["AB"].reshape(3, 1, 64)}, n=64)
    ours = by_name(sobol_indices(results))
    assert ours["first"].tolist() == pytest.approx(twin.first_order.tolist(), rel=1e-12)
    assert ours["total"].tolist() == pytest.approx(twin.total_order.tolist(), rel=1e-12)


def test_indices_know_neither_unit_nor_origin():
    results = played(lambda a, b, c: a * b + c, 64)
    moved = results.assign(goodput=results["goodput"] * 1000 - 5)
    pd.testing.assert_frame_equal(sobol_indices(results), sobol_indices(moved), rtol=1e-9)


def test_luck_that_shifts_all_scenarios_alike_is_in_no_index_and_what_does_not_counts_as_interaction():
    def shaken(a, b, c):
        return a + 0.2 * np.sin(1e6 * (a + 2 * b + 3 * c))  # as good as noise, another for each point

    quiet, noisy = (by_name(sobol_indices(played(each))) for each in (lambda a, b, c: a + 0 * b + 0 * c, shaken))
    assert quiet.loc["x2", "total"] == 0
    assert noisy.loc["x2", "total"] > 0.1 > noisy.loc["x2", "first"]


def test_an_interval_holds_its_index_and_narrows_with_points():
    few, many = (by_name(sobol_indices(played(lambda a, b, c: a * b + c, n))) for n in (16, 1024))
    for name in ("first", "total"):
        assert few[name].between(few[f"{name}_low"], few[f"{name}_high"]).all()
        assert ((many[f"{name}_high"] - many[f"{name}_low"]) < (few[f"{name}_high"] - few[f"{name}_low"])).all()


def test_formulas_expect_what_is_played_with_and_without_a_wait_for_nodes():
    """Over a month, of which five are played: each end within 4 standard errors and a point of goodput."""
    ranges = {"pool.spares": [2, 8], "repair.crews": [2, 8], "checkpoint.blocking_minutes": [0.5, 5]}
    study = asked(ranges, base=load_scenario("baseline"), seeds=5)
    played_, law = run_study(study), expected_results(study)
    error = (played_["goodput_high"] - played_["goodput_low"]) / 2 / 2.776  # Student's t of 5 runs
    assert ((played_["goodput"] - law["goodput"]).abs() < 4 * error + 0.01).all()
    assert law["scenario"].tolist() == played_["scenario"].tolist()
    assert law.set_index("scenario").loc["pool.spares=2", "goodput"] < law["goodput"][0] - 0.05


def test_formulas_expect_no_wait_where_spares_abound():
    study = asked({"pool.spares": [60, 80]}, base=load_scenario("baseline"))
    waitless = scenarios_of(study)[1].expected_goodput()
    assert expected_results(study)["goodput"].tolist()[1:] == pytest.approx([waitless, waitless], rel=1e-9)


def test_where_nothing_varies_no_index_is_known():
    indices = sobol_indices(played(lambda a, b, c: 0.8 + 0 * a, 8))
    assert indices[["first", "total", "first_low", "total_high"]].isna().all(axis=None)


def test_indices_of_a_design_that_has_none_are_refused():
    with pytest.raises(BadInput, match="design must be sobol"):
        sobol_indices(run_study(asked({"pool.spares": [0, 8]})))


def test_what_moves_goodput_has_indices_in_their_order_where_there_are_any():
    results = run_study(asked(GRID, design="sobol", samples=4))
    table = what_moves(results)
    assert table["total"].is_monotonic_decreasing and set(table["parameter"]) == set(GRID)
    others = results[~results["role"].isin(["A", "B", "AB"])]
    assert "total" not in what_moves(others) and what_moves(others)["swing"].is_monotonic_decreasing


def test_a_column_of_several_kinds_is_stored_as_text(tmp_path):
    results = run_study(asked(GRID))
    storable(results).to_parquet(tmp_path / "x.parquet")
    again = pd.read_parquet(tmp_path / "x.parquet")
    assert again["checkpoint.interval_minutes"].tolist() == ["30", "30", "daly", "30", "30"]
    assert again["pool.spares"].tolist() == [4, 4, 4, 0, 8]
    assert again["goodput"].tolist() == results["goodput"].tolist()


# The file


def test_the_example_moves_fourteen_parameters_in_1024_scenarios_and_the_tornado():
    study = load_study(EXAMPLE)
    assert len(study.parameters) == 14 and study.scenarios == 1024 + 29 and len(scenarios_of(study)) == 1053
    base = design(study).iloc[0]
    for name, parameter in study.parameters.items():
        assert all(path in name or parameter.paths for path in study.paths(name))
        if parameter.values is None and not pd.isna(base[name]):
            assert parameter.low <= base[name] <= parameter.high, name


def test_a_base_may_be_a_file_beside_the_study(tmp_path):
    (tmp_path / "mine.toml").write_text('base = "no-spares"\nname = "mine"\ndays = 3\n')
    text = 'base = "mine.toml"\nseeds = 2\ndesign = "tornado"\nparameters.pool.spares = [0, 1]\n'
    (tmp_path / "study.toml").write_text(text)
    assert load_study(tmp_path / "study.toml").base.days == 3


def test_a_key_in_quotes_is_the_same_as_one_without(tmp_path):
    head = 'base = "baseline"\nseeds = 2\ndesign = "tornado"\n[parameters]\n'
    for number, key in enumerate(("pool.spares", '"pool.spares"')):
        (tmp_path / f"{number}.toml").write_text(f"{head}{key} = [0, 8]\nrepair.crews = {{ low = 1, high = 2 }}\n")
    one, two = (load_study(tmp_path / f"{number}.toml") for number in range(2))
    assert one.parameters == two.parameters and list(one.parameters) == ["pool.spares", "repair.crews"]


HEAD = 'base = "baseline"\nseeds = 5\n'
TORNADO = HEAD + 'design = "tornado"\n[parameters]\n'
BAD = {
    "": "base must be given",
    "base = 3": "base must be given",
    'base = "basline"': "base='basline' must be a file or known; did you mean 'baseline'?",
    'base = "x.toml"': "base='x.toml' must be a file or known",
    HEAD: "design must be given",
    HEAD + 'design = "tornado"': "parameters must be given",
    HEAD + 'design = "tornado"\nparameters = 3': "parameters=3 must be a table of keys",
    HEAD + 'design = "tornado"\n[parameters]': "parameters={} must be a table that is not empty",
    HEAD + 'design = "lhs"\nparameters.days = [1, 2]': "design='lhs' must be 'grid', 'latin-hypercube', 'sobol' or",
    TORNADO.replace("seeds", "seed") + "days = [1, 2]": "seed must be a known key; did you mean 'seeds'?",
    TORNADO.replace("5", "1") + "days = [1, 2]": "seeds=1 must be greater than or equal to 2",
    HEAD + 'design = "sobol"\nparameters.days = [1, 2]': "samples must be given where design is sobol",
    HEAD + 'design = "latin-hypercube"\nparameters.days = [1, 2]': "samples must be given where design is latin",
    HEAD + 'design = "sobol"\nsamples = 12\nparameters.days = [1, 2]': "samples=12 must be a power of two",
    HEAD + 'design = "grid"\nparameters.days = {low = 1, high = 2}': "parameters.days.steps must be given where design",
    HEAD + 'design = "sobol"\nsamples = 65536\nparameters.days = [1, 2]': "at most 100,000 scenarios, not 196,611",
    TORNADO + "days = 3": "parameters.days=3 must be a list of values, or a table with low and high",
    TORNADO + "days = [1]": "parameters.days.values=[1] must be",
    TORNADO + "days = [1, 1]": "parameters.days: values=[1, 1] must differ",
    TORNADO + "days = {low = 1}": "parameters.days={'low': 1} must be a list of values, or a table with low and high",
    TORNADO + "days = {lo = 1, high = 2}": "parameters.days.lo must be a known key; did you mean 'low'?",
    TORNADO + "pool.spares = {low = 1, hihg = 2}": "parameters.pool.spares.hihg must be a known key; did you",
    TORNADO + "days = {low = 2, high = 1}": "parameters.days: low=2 must be below high=1",
    TORNADO + 'days = {low = "a", high = 1}': "parameters.days.low='a' must be a number",
    TORNADO + "days = {low = nan, high = 1}": "parameters.days.low=nan must be a finite number",
    TORNADO + 'days = {low = 0, high = 1, scale = "log"}': "low=0 must be above 0 where scale is log",
    TORNADO + 'days = {low = 1, high = 2, scale = "ln"}': "parameters.days.scale='ln' must be 'linear' or 'log'",
    TORNADO + "days = {low = 0.5, high = 2, whole = true}": "must be whole where whole is true",
    TORNADO + "days = {values = [1, 2], whole = true}": "values must stand without whole",
    TORNADO + "days = {low = 1, high = 2, steps = 1}": "parameters.days.steps=1 must be greater than or equal to 2",
    TORNADO + "x = {paths = [], low = 1, high = 2}": "parameters.x.paths=[] must be",
    TORNADO + 'days = [1, 2]\nx = {paths = ["days"], low = 1, high = 2}': "parameters must move days once",
    TORNADO + 'goodput = {paths = ["days"], low = 1, high = 2}': "parameters.goodput must not be a column of the res",
    TORNADO + 'name = ["a", "b"]': "parameters.name must not be a column of the results, or the name",
    "base = ": "must be a readable TOML file",
    'base = "a\\u0000b.toml"': "must be a file or known",
    f'base = "{"x" * 5000}"': "must be a file or known",
    "seeds = 1" + "0" * 5000: "must be a readable TOML file: Exceeds the limit (4300 digits)",
    TORNADO + ".".join("a" * 5000) + " = [1, 2]": "tables and lists must be at most 50 deep",
    TORNADO + "days = " + "[" * 3000 + "]" * 3000: "tables and lists must be at most 50 deep",
}


@pytest.mark.parametrize("text", BAD)
def test_a_study_that_cannot_be_is_refused_in_one_line_that_names_the_file(text, tmp_path):
    path = tmp_path / "study.toml"
    path.write_text(text)
    with pytest.raises(BadInput) as refused:
        load_study(path)
    assert str(refused.value).startswith(f"{path}: ") and "\n" not in str(refused.value)
    assert BAD[text] in str(refused.value)


def test_no_parameter_can_take_the_place_of_a_column_of_the_results():
    columns = run_study(asked({"pool.spares": [0, 8]})).columns.drop("pool.spares")
    assert {re.sub("_(low|high|p10|p90)$", "", name) for name in columns} == set(RESERVED)


def test_every_key_of_the_example_is_read():
    """What the file says is in the study, number by number."""
    text, study = tomllib.loads(EXAMPLE.read_text()), load_study(EXAMPLE)
    assert (text["seeds"], text["design"], text["samples"]) == (study.seeds, study.design, study.samples)
    assert study.parameters["pool.spares"] == Parameter(**text["parameters"]["pool"]["spares"])
    assert study.parameters["detection of hangs"].paths == text["parameters"]["detection of hangs"]["paths"]
