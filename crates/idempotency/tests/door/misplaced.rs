//! The self-test finds each way in which a program can put the layer in the wrong place.

use crate::grounds::memory;
use axum::body::Body;
use axum::extract::Request;
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::{Router, routing};
use http::{HeaderValue, Method, StatusCode, header};
use http_body_util::BodyExt;
use perdura_idempotency::routes::post;
use perdura_idempotency::{Builder, IdempotencyLayer, Misplaced, Policy, Routes, Scope, Secret};

/// Whom authentication found.
#[derive(Clone)]
struct Caller(Scope);

fn builder() -> Builder {
    IdempotencyLayer::builder(memory().store(), Secret::new([1; 32]).unwrap())
}

/// A layer that asks authentication whose request it is.
async fn layer() -> IdempotencyLayer {
    let scope =
        |parts: &http::request::Parts| parts.extensions.get::<Caller>().map(|caller| caller.0.clone());
    builder().scope(scope).build().await.unwrap()
}

fn routes() -> Routes {
    Routes::new().route("/payments/{id}", post(async || StatusCode::CREATED))
}

/// Authentication: the right token, or 401.
async fn authenticate(mut request: Request, next: Next) -> Response {
    if request.headers().get(header::AUTHORIZATION) != Some(&HeaderValue::from_static("Bearer right")) {
        return StatusCode::UNAUTHORIZED.into_response();
    }
    request.extensions_mut().insert(Caller(Scope::new("acme", "ann")));
    next.run(request).await
}

/// Authentication that lets everybody in under one name.
async fn wave_through(mut request: Request, next: Next) -> Response {
    request.extensions_mut().insert(Caller(Scope::new("acme", "somebody")));
    next.run(request).await
}

/// What compresses, in short: other content under the headers of the first.
async fn rewrite(request: Request, next: Next) -> Response {
    let (parts, body) = next.run(request).await.into_parts();
    let content = body.collect().await.unwrap().to_bytes();
    Response::from_parts(parts, Body::from(content.slice(..content.len() / 2)))
}

async fn drop_digest(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    response.headers_mut().remove("content-digest");
    response
}

fn sign_in(request: &mut Request<Body>) {
    request.headers_mut().insert(header::AUTHORIZATION, HeaderValue::from_static("Bearer right"));
}

#[tokio::test]
async fn a_layer_in_its_place_passes() {
    let layer = layer().await;
    let app = routes().guarded_by(&layer).unwrap().layer(middleware::from_fn(authenticate));
    assert_eq!(layer.self_test(app.clone(), sign_in).await, Ok(()));
    assert_eq!(layer.self_test(app, sign_in).await, Ok(()), "again");
}

#[tokio::test]
async fn an_anonymous_layer_needs_no_authentication() {
    let layer = builder().anonymous(Scope::new("all", "all")).build().await.unwrap();
    let app = routes().guarded_by(&layer).unwrap();
    assert_eq!(layer.self_test(app, |_| ()).await, Ok(()));
}

#[tokio::test]
async fn a_probe_never_reaches_a_handler() {
    let layer = layer().await;
    let routes = Routes::new().route("/payments", post(async || -> StatusCode { panic!("it was reached") }));
    let app = routes.guarded_by(&layer).unwrap().layer(middleware::from_fn(authenticate));
    assert_eq!(layer.self_test(app, sign_in).await, Ok(()));
}

#[tokio::test]
async fn nothing_to_test_is_told() {
    let layer = layer().await;
    let routes = Routes::<()>::new().route("/search", post(async || StatusCode::OK).exempt());
    let app = routes.guarded_by(&layer).unwrap();
    assert_eq!(layer.self_test(app, sign_in).await, Err(Misplaced::NoRoute));
}

#[tokio::test]
async fn every_protected_route_is_tried() {
    let layer = layer().await;
    let inside =
        Routes::new().route("/admin", post(async || StatusCode::CREATED)).guarded_by(&layer).unwrap();
    let app = routes().guarded_by(&layer).unwrap().layer(middleware::from_fn(authenticate)).merge(inside);
    assert_eq!(
        layer.self_test(app, sign_in).await,
        Err(Misplaced::NotAuthenticated),
        "/admin is outside of it"
    );
}

#[tokio::test]
async fn routes_that_were_nested_afterwards_are_tried_where_they_are() {
    let layer = layer().await;
    let guarded = routes().guarded_by(&layer).unwrap();
    let app = Router::new().nest("/v1", guarded).layer(middleware::from_fn(authenticate));
    let below = |request: &mut Request<Body>| {
        sign_in(request);
        *request.uri_mut() = format!("/v1{}", request.uri()).parse().unwrap();
    };
    assert_eq!(layer.self_test(app, below).await, Ok(()));
    let open = Router::new().nest("/v1", routes().guarded_by(&layer).unwrap());
    let open = open.layer(middleware::from_fn(wave_through));
    assert_eq!(layer.self_test(open, below).await, Err(Misplaced::OpenToAll));
}

#[tokio::test]
async fn a_layer_that_is_not_on_its_route_is_told() {
    let layer = layer().await;
    drop(routes().guarded_by(&layer).unwrap());
    let bare = Router::new().route("/payments/{id}", routing::post(async || StatusCode::CREATED));
    let not_reached = |status| Err(Misplaced::NotReached { route: "POST /payments/{id}".to_owned(), status });
    assert_eq!(layer.self_test(bare, sign_in).await, not_reached(StatusCode::CREATED));
    assert_eq!(layer.self_test(Router::new(), sign_in).await, not_reached(StatusCode::NOT_FOUND));
    let guarded = routes().guarded_by(&layer).unwrap().layer(middleware::from_fn(authenticate));
    let refused = layer.self_test(guarded, |_| ()).await;
    assert_eq!(refused, not_reached(StatusCode::UNAUTHORIZED), "with credentials that are none");
}

#[tokio::test]
async fn a_layer_outside_of_routing_is_told() {
    let scope = |_: &http::request::Parts| Some(Scope::new("acme", "ann"));
    let declared = builder().scope(scope).route(&Method::POST, "/payments/{id}", Policy::default());
    let layer = declared.build().await.unwrap();
    let inside = Router::new().route("/payments/{id}", routing::post(async || StatusCode::CREATED));
    let app = Router::new().fallback_service(inside).layer(layer.clone());
    assert_eq!(layer.self_test(app, sign_in).await, Err(Misplaced::NotRouted));
}

#[tokio::test]
async fn authentication_on_the_inside_is_told() {
    let layer = layer().await;
    let handler = routing::post(async || StatusCode::CREATED).layer(middleware::from_fn(authenticate));
    drop(routes().guarded_by(&layer).unwrap());
    let app = Router::new().route("/payments/{id}", handler).layer(layer.clone());
    assert_eq!(layer.self_test(app, sign_in).await, Err(Misplaced::NotAuthenticated));
}

#[tokio::test]
async fn a_door_that_is_open_to_all_is_told() {
    let layer = layer().await;
    let app = routes().guarded_by(&layer).unwrap().layer(middleware::from_fn(wave_through));
    assert_eq!(layer.self_test(app, sign_in).await, Err(Misplaced::OpenToAll));
}

#[tokio::test]
async fn what_changes_contents_on_the_outside_is_told() {
    let layer = layer().await;
    let guarded = routes().guarded_by(&layer).unwrap();
    let rewritten =
        guarded.clone().layer(middleware::from_fn(rewrite)).layer(middleware::from_fn(authenticate));
    assert_eq!(layer.self_test(rewritten, sign_in).await, Err(Misplaced::ContentChanged));
    let bare = guarded.layer(middleware::from_fn(drop_digest)).layer(middleware::from_fn(authenticate));
    assert_eq!(layer.self_test(bare, sign_in).await, Err(Misplaced::ContentChanged));
}

/// It has no path that a probe could be sent to.
#[tokio::test]
async fn a_fallback_is_not_taken_for_a_route() {
    let layer = builder().anonymous(Scope::new("acme", "anybody"));
    let layer =
        layer.route(&Method::POST, "*", Policy::default()).route(&Method::POST, "/pay", Policy::default());
    let layer = layer.build().await.unwrap();
    let app = Router::new().route("/pay", routing::post(|| async {})).layer(layer.clone());
    assert_eq!(layer.self_test(app, |_| {}).await, Ok(()));
}
