"""How the pictures of the documentation look."""

SETTINGS = {
    "svg.hashsalt": "sqp-keras",
    "svg.fonttype": "path",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.6,
    "legend.frameon": False,
    "savefig.facecolor": "white",
}
RED, BLUE, BLACK, GREY = "#c1432e", "#2c6fae", "#222222", "#8a8a8a"  # told apart by the colour-blind, too
