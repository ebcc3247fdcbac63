import pytest

pytestmark = [pytest.mark.newest]
