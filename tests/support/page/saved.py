"""What the page finds in a saved copy or report."""

import gzip
import json
import re
from base64 import b64decode


def data_of(html):
    packed = re.search(r'<script type="text/plain" id="data">([A-Za-z0-9+/=]*)</script>', html)
    return json.loads(gzip.decompress(b64decode(packed[1])))
