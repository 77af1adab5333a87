"""A report or a comparison as one HTML file that needs no other and loads nothing.

    result tables -> figures and tables -> document -> template

The charts that move are drawn by uPlot (https://github.com/leeoniya/uPlot, 1.6.32, MIT
licence), which lies in ``uplot/`` as it was published.
"""
