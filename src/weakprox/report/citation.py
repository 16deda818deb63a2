"""How to cite the library and the paper, as in CITATION.cff."""

from __future__ import annotations

from weakprox import __version__

BIBTEX = f"""@software{{weakprox,
  title   = {{weakprox}},
  author  = {{{{weakprox developers}}}},
  version = {{{__version__}}}
}}
@inproceedings{{garber2019fast,
  title     = {{Fast Stochastic Algorithms for Low-rank and Nonsmooth Matrix Problems}},
  author    = {{Garber, Dan and Kaplan, Atara}},
  booktitle = {{Proceedings of the Twenty-Second International Conference on Artificial
               Intelligence and Statistics}},
  series    = {{Proceedings of Machine Learning Research}},
  volume    = {{89}},
  pages     = {{286--294}},
  year      = {{2019}},
  note      = {{arXiv:1809.10477}}
}}"""
