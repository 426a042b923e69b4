import numpy as np
import pytest
from noisefloor.stats import student
from scipy import stats


@pytest.mark.parametrize("df", [0.7, 1, 1.3, 2, 3.7, 9, 30, 200, 50_000])
def test_agrees_with_scipy(df):
    t = np.array([-40, -2.2, -0.1, 0, 1e-6, 0.5, 2.2, 5, 40])
    got = [student.two_sided(x, df) for x in t]
    np.testing.assert_allclose(got, 2 * stats.t.sf(np.abs(t), df), rtol=2e-6, atol=1e-200)
    q = [0.001, 0.025, 0.2, 0.5, 0.9, 0.975, 0.9995]
    np.testing.assert_allclose(
        [student.quantile(x, df) for x in q], stats.t.ppf(q, df), rtol=1e-9, atol=1e-12
    )


def test_is_normal_for_endless_degrees_of_freedom():
    assert student.quantile(0.975, 1e9) == pytest.approx(1.959964, abs=1e-6)
    assert student.two_sided(1.959964, 1e9) == pytest.approx(0.05, abs=1e-6)
    assert student.two_sided(float("inf"), 3) == 0


@pytest.mark.parametrize(("q", "df"), [(0, 3), (1, 3), (0.5, 0), (0.5, -1), (0.5, float("nan"))])
def test_refuses_what_has_no_quantile(q, df):
    with pytest.raises(ValueError, match="nothing was done"):
        student.quantile(q, df)
