"""k-NN, k-means, UniRoute and the benchmark table: rules, ties, empty cells, fallbacks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.errors import ParametersInvalid
from policies.replay.routers import knn as knn_module
from policies.replay.routers.kmeans import assign, kmeans
from policies.replay.routers.knn import Knn, nearest
from policies.replay.routers.means import unit_rows
from policies.replay.routers.operating import Point
from policies.replay.routers.uniroute import ByBenchmark, UniRoute, group_means
from policies.replay.table import strings
from tests.replay.routers.tables import NAN, table, two_kinds


def found(train: np.ndarray, queries: np.ndarray, k: int, own: np.ndarray | None = None) -> list[list[int]]:
    blocks = nearest(train.astype(np.float32), queries.astype(np.float32), k, own_rows=own)
    return [sorted(row) for _, block in blocks for row in block.tolist()]


class TestNearest:
    @given(st.integers(0, 2**31), st.integers(1, 40), st.integers(1, 50))
    def test_they_are_those_of_a_full_sort(self, seed: int, n: int, k: int) -> None:
        rng = np.random.default_rng(seed)
        train, queries = unit_rows(rng.normal(size=(n, 3))), unit_rows(rng.normal(size=(5, 3)))
        similarity = np.round(queries.astype(np.float32) @ train.astype(np.float32).T, knn_module.DECIMALS)
        order = np.argsort(-similarity, axis=1, kind="stable")[:, :k]
        assert found(train, queries, k) == [sorted(row) for row in order.tolist()]

    def test_neighbours_that_tie_at_rank_k_come_in_the_order_of_training(self) -> None:
        train = unit_rows(np.array([[0, 1], [1, 0], [1, 0], [1, 0], [1, 0.01]], dtype=float))
        assert found(train, np.array([[1.0, 0.0]]), 2) == [[1, 2]]

    def test_a_training_query_is_not_its_own_neighbour(self) -> None:
        train = unit_rows(np.array([[1, 0], [1, 0.1], [0, 1]], dtype=float))
        assert found(train, train, 1, np.arange(3)) == [[1], [0], [1]]

    def test_blocks_change_nothing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        rng = np.random.default_rng(0)
        train, queries = unit_rows(rng.normal(size=(50, 8))), unit_rows(rng.normal(size=(33, 8)))
        whole = found(train, queries, 7)
        monkeypatch.setattr(knn_module, "BLOCK_CELLS", 200)
        assert found(train, queries, 7) == whole

    def test_a_zero_embedding_is_as_near_to_all(self) -> None:
        assert found(unit_rows(np.eye(3)), unit_rows(np.zeros((1, 3))), 2) == [[0, 1]]


class TestKnn:
    def test_it_averages_scores_and_does_not_vote_for_a_best_arm(self) -> None:
        """a is best on three of five neighbours by tie-break, yet b has the higher mean."""
        scores = [[1, 1], [1, 1], [1, 1], [0, 1], [0, 1]]
        one = table(scores, embeddings=np.ones((5, 2)))
        swept = Knn(5).fit(one, 0).curve(one.queries.take([0]))
        assert swept is not None and swept.error[0].tolist() == pytest.approx([0.4, 0.0])

    def test_joules_are_the_neighbours_or_the_models_mean(self) -> None:
        one = table([[1, 0], [0, 1]], [[10, 40], [30, 80]], embeddings=np.eye(2))
        query = one.queries.take([1])
        own, model = (Knn(1, energy).fit(one, 0).curve(query) for energy in ("neighbours", "model"))
        assert own is not None and own.energy_j.tolist() == [[30.0, 80.0]]
        assert model is not None and model.energy_j.tolist() == [[20.0, 60.0]]

    def test_an_arm_that_no_neighbour_was_asked_gets_its_overall_mean(self) -> None:
        one = table([[1, NAN], [0, 1], [0, 0.5]], embeddings=[[1, 0], [0, 1], [0, 1]])
        swept = Knn(1).fit(one, 0).curve(one.queries.take([0]))
        assert swept is not None and swept.error[0].tolist() == [0.0, 0.25]

    def test_more_neighbours_than_queries_are_all_queries_and_the_notes_say_so(self) -> None:
        fitted = Knn(1000).fit(two_kinds().train(), 0)
        assert fitted.notes["k"] == 40

    @pytest.mark.parametrize(("k", "energy"), [(0, "neighbours"), (3, "cluster")])
    def test_parameters_out_of_range_are_refused(self, k: int, energy: str) -> None:
        with pytest.raises(ParametersInvalid):
            Knn(k, energy)

    def test_names_are_unique_per_setting(self) -> None:
        names = [Knn(40).about.name, Knn(40, "model").about.name, Knn(40, point=Point(0.01)).about.name]
        assert names == ["knn-40", "knn-40:model", "knn-40@0.01"]


class TestKMeans:
    def test_it_finds_well_separated_groups(self) -> None:
        rng = np.random.default_rng(0)
        centre = np.repeat(np.eye(4) * 10, 25, axis=0)
        label = assign(points := centre + rng.normal(size=centre.shape) * 0.1, kmeans(points, 4, 0))
        assert len({tuple(label[at : at + 25]) for at in range(0, 100, 25)}) == 4
        assert all(len(set(label[at : at + 25].tolist())) == 1 for at in range(0, 100, 25))

    def test_it_is_the_same_under_a_seed(self) -> None:
        points = np.random.default_rng(1).normal(size=(80, 5))
        assert np.array_equal(kmeans(points, 6, 4), kmeans(points, 6, 4))

    def test_more_clusters_than_distinct_points_are_as_many_as_there_are(self) -> None:
        assert len(kmeans(np.repeat(np.eye(3), 5, axis=0), 10, 0)) == 3
        assert len(kmeans(np.ones((4, 2)), 3, 0)) == 1

    def test_each_centroid_is_the_mean_of_its_points_or_near_it(self) -> None:
        points = np.random.default_rng(2).normal(size=(200, 3))
        centroids = kmeans(points, 3, 0)
        label = assign(points, centroids)
        for at in range(3):
            assert np.linalg.norm(points[label == at].mean(axis=0) - centroids[at]) < 0.1

    def test_a_large_part_is_fitted_on_a_seeded_sample(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("policies.replay.routers.kmeans.FIT_ROWS", 50)
        points = np.random.default_rng(3).normal(size=(400, 3))
        assert np.array_equal(kmeans(points, 4, 1), kmeans(points, 4, 1))


class TestUniRoute:
    def test_one_cluster_is_the_zero_router(self) -> None:
        one = two_kinds()
        swept = UniRoute(1, shrinkage=0).fit(one.train(), 0).curve(one.test().queries)
        assert swept is not None
        assert swept.error == pytest.approx(np.tile(1 - one.train().correct.mean(axis=0), (20, 1)))

    def test_joules_are_the_clusters_own_unless_the_models_are_asked_for(self) -> None:
        one = two_kinds()
        own, model = (UniRoute(2, energy, 0).fit(one.train(), 0) for energy in ("cluster", "model"))
        queries = one.test().queries
        assert sorted(set(own.curve(queries).energy_j[:, 0].tolist())) == pytest.approx([10.0, 20.0])
        assert model.curve(queries).energy_j[:, 0] == pytest.approx(15.0)

    def test_a_group_without_cells_has_its_parents_mean(self) -> None:
        means, known = group_means(np.array([[1.0], [0.5], [NAN]]), np.array([0, 0, 1]), 3, 1.0)
        assert means[:, 0].tolist() == [0.75, 0.75, 0.75, 0.75] and known[:, 0].tolist() == [2, 0, 0]
        bare, _ = group_means(np.array([[1.0], [0.5]]), np.array([0, 0]), 2, 0.0)
        assert bare[:, 0].tolist() == [0.75, 0.75, 0.75]

    def test_shrinkage_draws_small_groups_to_the_parent(self) -> None:
        values = np.array([[1.0], [0.0], [0.0], [0.0]])
        means, _ = group_means(values, np.array([0, 1, 1, 1]), 2, 1.0)
        assert means[:2, 0].tolist() == [(1 + 0.25) / 2, (0 + 0.25) / 4]

    def test_an_arm_without_cells_stays_unknown(self) -> None:
        means, _ = group_means(np.array([[NAN], [NAN]]), np.array([0, 0]), 1, 1.0)
        assert np.isnan(means).all()

    def test_empty_cells_are_counted(self) -> None:
        scores = [[1, 0], [1, 0], [NAN, 1], [NAN, 1]]
        one = table(scores, embeddings=[[1, 0], [1, 0.01], [0, 1], [0.01, 1]])
        assert UniRoute(2).fit(one, 0).notes["empty_cells"] == 1

    @pytest.mark.parametrize("wrong", [{"clusters": 0}, {"energy": "neighbours"}, {"shrinkage": -1}])
    def test_parameters_out_of_range_are_refused(self, wrong: dict[str, int]) -> None:
        with pytest.raises(ParametersInvalid):
            UniRoute(**wrong)


class TestByBenchmark:
    def test_an_unseen_benchmark_gets_the_arms_means(self) -> None:
        one = two_kinds()
        fitted = ByBenchmark(shrinkage=0).fit(one.train(), 0)
        queries = one.test().queries
        queries.benchmarks[:] = strings(["other"] * len(queries))
        swept = fitted.curve(queries)
        assert swept is not None and swept.error[0] == pytest.approx(1 - one.train().correct.mean(axis=0))
