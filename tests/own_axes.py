"""What every figure must hold that is drawn without axes given to it."""

import matplotlib


def check_own_axes(draw) -> None:
    """Draw on axes of its own: no setting is changed, and title, labels and numbers lie within the picture."""
    before = dict(matplotlib.rcParams)
    axes = draw(None)
    axes.figure.canvas.draw()
    assert axes.figure.axes == [axes] and dict(matplotlib.rcParams) == before
    texts = (axes._left_title, axes.xaxis.label, *axes.texts, *axes.get_yticklabels())
    boxes = [text.get_window_extent() for text in texts]
    assert all(box.x0 >= axes.figure.bbox.x0 and box.x1 <= axes.figure.bbox.x1 for box in boxes)
