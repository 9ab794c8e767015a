"""One evaluation run: asked, recorded, resumed, replayed."""
