"""No cliffs: neighbouring problems need similar numbers of decompositions."""


def test_no_cell_is_far_above_its_neighbours(cost):
    assert cost.cliffs(cost.quick()) == []


def test_a_cliff_would_be_seen(cost):
    cell = {**vars(cost.Cell()), "panel": "forms", "status": "CERTIFIED", "svds": 5}
    rows = [dict(cell) for _ in range(6)]
    assert cost.cliffs(rows) == []
    assert len(cost.cliffs([*rows, cell | {"svds": 29}])) == 1
    assert len(cost.cliffs([*rows, cell | {"status": "FINISHED"}])) == 1
