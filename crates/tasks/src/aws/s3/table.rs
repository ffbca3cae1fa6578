//! The names of S3's members on the wire. Data.
//!
//! A member has the same name in every action, so one table says where it goes. Members with two spellings have the
//! documented one of an SDK integration first; both are accepted.

use http::Method;

/// An action.
pub(super) struct Route {
    pub(super) action: &'static str,
    pub(super) method: Method,
    pub(super) place: Place,
    /// The fixed part of the query.
    pub(super) query: &'static str,
    pub(super) answer: Answer,
}

/// The target of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Account,
    Bucket,
    Object,
}

/// The content of an answer besides its headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Nothing,
    /// The object itself, and its metadata.
    Content,
    /// Its metadata alone.
    Metadata,
    /// Members in XML.
    Members,
    /// One member in XML, of this name.
    Member(&'static str),
}

/// How a text on the wire is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    Number,
    Truth,
    Time,
}

const fn route(
    action: &'static str,
    method: Method,
    place: Place,
    query: &'static str,
    answer: Answer,
) -> Route {
    Route { action, method, place, query, answer }
}

#[rustfmt::skip]
pub(super) const ROUTES: &[Route] = &[
    route("copyObject", Method::PUT, Place::Object, "", Answer::Member("CopyObjectResult")),
    route("createBucket", Method::PUT, Place::Bucket, "", Answer::Nothing),
    route("deleteBucket", Method::DELETE, Place::Bucket, "", Answer::Nothing),
    route("deleteObject", Method::DELETE, Place::Object, "", Answer::Nothing),
    route("getObject", Method::GET, Place::Object, "", Answer::Content),
    route("headBucket", Method::HEAD, Place::Bucket, "", Answer::Nothing),
    route("headObject", Method::HEAD, Place::Object, "", Answer::Metadata),
    route("listBuckets", Method::GET, Place::Account, "", Answer::Members),
    route("listObjects", Method::GET, Place::Bucket, "", Answer::Members),
    route("listObjectsV2", Method::GET, Place::Bucket, "list-type=2", Answer::Members),
    route("putObject", Method::PUT, Place::Object, "", Answer::Nothing),
];

/// Members that go into the query.
pub(super) const QUERY: &[(&str, &str)] = &[
    ("ContinuationToken", "continuation-token"),
    ("Delimiter", "delimiter"),
    ("EncodingType", "encoding-type"),
    ("FetchOwner", "fetch-owner"),
    ("Marker", "marker"),
    ("MaxBuckets", "max-buckets"),
    ("MaxKeys", "max-keys"),
    ("PartNumber", "partNumber"),
    ("Prefix", "prefix"),
    ("ResponseCacheControl", "response-cache-control"),
    ("ResponseContentDisposition", "response-content-disposition"),
    ("ResponseContentEncoding", "response-content-encoding"),
    ("ResponseContentLanguage", "response-content-language"),
    ("ResponseContentType", "response-content-type"),
    ("StartAfter", "start-after"),
    ("VersionId", "versionId"),
];

/// Members that are headers of a request.
pub(super) const HEADERS: &[(&str, &str)] = &[
    ("Acl", "x-amz-acl"),
    ("ACL", "x-amz-acl"),
    ("BucketKeyEnabled", "x-amz-server-side-encryption-bucket-key-enabled"),
    ("BypassGovernanceRetention", "x-amz-bypass-governance-retention"),
    ("CacheControl", "cache-control"),
    ("ChecksumAlgorithm", "x-amz-sdk-checksum-algorithm"),
    ("ChecksumCRC32", "x-amz-checksum-crc32"),
    ("ChecksumMode", "x-amz-checksum-mode"),
    ("ChecksumSHA256", "x-amz-checksum-sha256"),
    ("ContentDisposition", "content-disposition"),
    ("ContentEncoding", "content-encoding"),
    ("ContentLanguage", "content-language"),
    ("ContentMD5", "content-md5"),
    ("ContentType", "content-type"),
    ("CopySource", "x-amz-copy-source"),
    ("CopySourceIfMatch", "x-amz-copy-source-if-match"),
    ("CopySourceIfNoneMatch", "x-amz-copy-source-if-none-match"),
    ("ExpectedBucketOwner", "x-amz-expected-bucket-owner"),
    ("ExpectedSourceBucketOwner", "x-amz-source-expected-bucket-owner"),
    ("IfMatch", "if-match"),
    ("IfNoneMatch", "if-none-match"),
    ("MetadataDirective", "x-amz-metadata-directive"),
    ("ObjectLockLegalHoldStatus", "x-amz-object-lock-legal-hold"),
    ("ObjectLockMode", "x-amz-object-lock-mode"),
    ("ObjectLockRetainUntilDate", "x-amz-object-lock-retain-until-date"),
    ("ObjectOwnership", "x-amz-object-ownership"),
    ("Range", "range"),
    ("RequestPayer", "x-amz-request-payer"),
    ("ServerSideEncryption", "x-amz-server-side-encryption"),
    ("SseCustomerAlgorithm", "x-amz-server-side-encryption-customer-algorithm"),
    ("SseCustomerKey", "x-amz-server-side-encryption-customer-key"),
    ("SseCustomerKeyMD5", "x-amz-server-side-encryption-customer-key-md5"),
    ("SsekmsKeyId", "x-amz-server-side-encryption-aws-kms-key-id"),
    ("SSEKMSKeyId", "x-amz-server-side-encryption-aws-kms-key-id"),
    ("StorageClass", "x-amz-storage-class"),
    ("Tagging", "x-amz-tagging"),
    ("TaggingDirective", "x-amz-tagging-directive"),
    ("WebsiteRedirectLocation", "x-amz-website-redirect-location"),
];

/// Headers of an answer that are members, in the order in which they are shown.
pub(super) const SHOWN: &[(&str, &str, Kind)] = &[
    ("AcceptRanges", "accept-ranges", Kind::Text),
    ("ArchiveStatus", "x-amz-archive-status", Kind::Text),
    ("BucketKeyEnabled", "x-amz-server-side-encryption-bucket-key-enabled", Kind::Truth),
    ("BucketRegion", "x-amz-bucket-region", Kind::Text),
    ("CacheControl", "cache-control", Kind::Text),
    ("ChecksumCRC32", "x-amz-checksum-crc32", Kind::Text),
    ("ChecksumCRC32C", "x-amz-checksum-crc32c", Kind::Text),
    ("ChecksumCRC64NVME", "x-amz-checksum-crc64nvme", Kind::Text),
    ("ChecksumSHA1", "x-amz-checksum-sha1", Kind::Text),
    ("ChecksumSHA256", "x-amz-checksum-sha256", Kind::Text),
    ("ChecksumType", "x-amz-checksum-type", Kind::Text),
    ("ContentDisposition", "content-disposition", Kind::Text),
    ("ContentEncoding", "content-encoding", Kind::Text),
    ("ContentLanguage", "content-language", Kind::Text),
    ("ContentRange", "content-range", Kind::Text),
    ("CopySourceVersionId", "x-amz-copy-source-version-id", Kind::Text),
    ("DeleteMarker", "x-amz-delete-marker", Kind::Truth),
    ("ETag", "etag", Kind::Text),
    ("Expiration", "x-amz-expiration", Kind::Text),
    ("Location", "location", Kind::Text),
    ("MissingMeta", "x-amz-missing-meta", Kind::Number),
    ("ObjectLockLegalHoldStatus", "x-amz-object-lock-legal-hold", Kind::Text),
    ("ObjectLockMode", "x-amz-object-lock-mode", Kind::Text),
    ("PartsCount", "x-amz-mp-parts-count", Kind::Number),
    ("ReplicationStatus", "x-amz-replication-status", Kind::Text),
    ("RequestCharged", "x-amz-request-charged", Kind::Text),
    ("Restore", "x-amz-restore", Kind::Text),
    ("ServerSideEncryption", "x-amz-server-side-encryption", Kind::Text),
    ("SseCustomerAlgorithm", "x-amz-server-side-encryption-customer-algorithm", Kind::Text),
    ("SsekmsKeyId", "x-amz-server-side-encryption-aws-kms-key-id", Kind::Text),
    ("StorageClass", "x-amz-storage-class", Kind::Text),
    ("TagCount", "x-amz-tagging-count", Kind::Number),
    ("VersionId", "x-amz-version-id", Kind::Text),
    ("WebsiteRedirectLocation", "x-amz-website-redirect-location", Kind::Text),
];

/// Headers that describe content, and are left out without content.
pub(super) const OF_CONTENT: &[(&str, &str, Kind)] = &[
    ("ContentLength", "content-length", Kind::Number),
    ("ContentType", "content-type", Kind::Text),
    ("LastModified", "last-modified", Kind::Time),
];

/// Elements that may occur several times, or not at all.
pub(super) const LISTS: &[&str] = &["ChecksumAlgorithm", "CommonPrefixes", "Contents"];
/// Elements whose own elements are the list.
pub(super) const WRAPPED: &[&str] = &["Buckets"];
/// Elements with a type other than text.
pub(super) const KINDS: &[(&str, Kind)] = &[
    ("CreationDate", Kind::Time),
    ("IsTruncated", Kind::Truth),
    ("KeyCount", Kind::Number),
    ("LastModified", Kind::Time),
    ("MaxKeys", Kind::Number),
    ("Size", Kind::Number),
];
