import guarantor


def test_the_native_module_is_in_the_wheel() -> None:
    assert guarantor.__version__.count(".") == 2
