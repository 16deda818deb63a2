"""Advice on how to write cells that are not numbers."""

from __future__ import annotations

import re
from pathlib import Path

CURRENCIES = "$€£¥"
NOTHING = {"-", "--", "?", ".", "*", "none", "missing", "#n/a", "n.a."}
# digits in groups of three, separated by one sign throughout
_SIGNS = " ,.'\u00a0\u2009\u202f"  # including spaces of several widths
_THOUSANDS = re.compile(rf"[+-]?\d{{1,3}}([{_SIGNS}])\d{{3}}(?:\1\d{{3}})*(?:[.,]\d+)?")
_FAILED = re.compile(r"#(DIV/0!|VALUE!|REF!|NAME\?|NUM!|NULL!)")  # as spreadsheets write it
_DATE = re.compile(r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}(?:[T ].*)?")
UTF8 = (
    "text in UTF-8: save the file as CSV UTF-8, or convert it, for example by "
    "iconv -f latin1 -t utf-8"
)
OTHERWISE = "a number; leave columns of text out, or name one as labels by --index-col"
ELSEWHERE = {  # suffixes of files that hold tables, and what to do
    ".xls": "save it as .xlsx",
    ".gz": "unpack it first",
    ".zip": "unpack it first",
    ".bz2": "unpack it first",
    ".json": "write it as .csv, for example by pandas.read_json and to_csv",
    ".pkl": "a pickle could run code; write it as .csv or .npy",
    ".pickle": "a pickle could run code; write it as .csv or .npy",
    ".mat": "write it as .npy, for example by scipy.io.loadmat and numpy.save",
    ".rds": "write it as .csv by write.csv",
    ".dat": "name it .txt if cells are separated by white space, else .csv",
    ".feather": "write it as .parquet",
    ".h5": "write it as .npy, or as .zarr",
}


def in_numbers(cell: str, otherwise: str = OTHERWISE) -> str:
    """The expected contents of a cell that is not a number."""
    text = cell.strip()
    bare = text.strip(CURRENCIES + " ")
    if text.lower() in NOTHING:
        return "a number; leave missing entries empty, or write NA"
    if _FAILED.fullmatch(text):
        return "a number: the formula of this cell failed; repair it, or leave the cell empty"
    if text.lower() in ("true", "false", "yes", "no"):
        return "a number: 1 or 0"
    if text.endswith("%"):
        return "a number without %"
    if bare != text and bare[:1].isdigit():
        return "a number without a currency sign"
    if "\u2212" in text or "\u2013" in text:
        return "a number, with the ASCII character - as the minus sign"
    if re.fullmatch(r"\([\d.,]+\)", text):
        return f"a number: -{text[1:-1]} for a negative one"
    if _THOUSANDS.fullmatch(text):
        return "a number without thousands separators"
    if _DATE.fullmatch(text):
        return "a number; dates may be labels, in the column that --index-col names"
    return otherwise


def local(path: Path) -> str:
    """The expected argument in place of a file that does not exist."""
    if str(path).lower().startswith(("http:/", "https:/", "ftp:/", "s3:/")):
        return "a file on this machine: download it first"
    return "one that exists"
